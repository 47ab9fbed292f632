//go:build unix

package cmd

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"lane/pkg/control"
	"lane/pkg/printer"
	"lane/pkg/traffic"
)

// recorded are the exchanges of the machine's only session, by their paths.
func (f *field) recorded(filter string) map[string]printer.ExchangeRecord {
	f.t.Helper()
	out := map[string]printer.ExchangeRecord{}
	d := json.NewDecoder(strings.NewReader(f.run("lane", "tail", "--follow=false", "--json", "-n", "100", "--filter", filter)))
	for d.More() {
		var e printer.ExchangeRecord
		if err := d.Decode(&e); err != nil {
			f.t.Fatal(err)
		}
		out[traffic.PathOf(&traffic.Exchange{URL: e.URL})] = e
	}
	return out
}

// What stands of a request under way, by how its tunnel ends: a relay that is ended waits
// for it; one that is told to wait no longer cuts it off, and so does one that is killed.
// The laptop sees the same in all of them as of a caller who leaves, and tells them apart.
func TestWhatALostTunnelLooksLikeAtTheLaptop(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.instance("orders", "orders-base", f.app("baseline").addr, nil)
	came, letGo := make(chan struct{}, 1), make(chan struct{})
	local := f.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = w.Write([]byte("half"))
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path != "/" {
			came <- struct{}{}
			if r.URL.Path == "/ended" {
				<-letGo
			} else {
				<-r.Context().Done()
			}
		}
		_, _ = w.Write([]byte("laptop"))
	})
	_, port, _ := strings.Cut(local, ":")
	relay := f.relay()
	laptop := f.laptop(relay, relay.addr, f.token("alice", "dev-alice"))
	up := laptop.lane("dev-alice", "-s", "orders="+port, "--register", "shared")
	at := f.stands("orders", "dev-alice")
	c := f.caller()
	underWay := func(path string) (said <-chan *reply, leave func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan *reply, 1)
		go func() {
			defer close(got)
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+path, nil)
			req.Header.Set("x-lane-tag", "dev-alice")
			if r, err := c.do(req); err == nil {
				got <- r
			}
		}()
		<-came
		return got, cancel
	}
	signal := func() {
		t.Helper()
		if err := relay.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	again := func() {
		t.Helper()
		ups := len(relay.lines("up"))
		relay.start()
		f.eventually("it has claimed", func() bool { return len(relay.lines("up")) > ups && laptop.relayState() == control.RelayOK })
		at = f.stands("orders", "dev-alice")
	}
	row := func(path string) (e printer.ExchangeRecord) {
		t.Helper()
		f.eventually(path+" is recorded", func() (ok bool) { e, ok = laptop.recorded("path:" + path)[path]; return ok })
		return e
	}
	lost := func(path string, status int) {
		t.Helper()
		e := row(path)
		if e.Route != traffic.RouteLost || e.Code != "E_RELAY_LOST" || e.Status != status || !strings.HasPrefix(e.Why, "the tunnel to the relay broke under the request") {
			t.Errorf("%s: %s %s %d: %s", path, e.Route, e.Code, e.Status, e.Why)
		}
	}

	_, leave := underWay("/left")
	leave()
	if e := row("/left"); e.Route != traffic.RouteLane || e.Code != "" || e.Err != "the caller went away before the answer" {
		t.Errorf("a caller who left: %s %s: %s", e.Route, e.Code, e.Err)
	}

	said, _ := underWay("/ended")
	signal()
	f.eventually("no instance", func() bool { return len(f.placed("orders", "dev-alice")) == 0 })
	close(letGo)
	if r := <-said; r == nil || r.by("laptop") != nil {
		t.Errorf("a relay that ends: %v", r)
	}
	relay.wait()
	if e := row("/ended"); e.Route != traffic.RouteLane || e.Status != http.StatusOK {
		t.Errorf("a relay that ends: %s %d %s", e.Route, e.Status, e.Why)
	}
	again()

	said, _ = underWay("/hurried")
	relay.ends = true // it may say that it was not waited for
	signal()
	f.eventually("no instance", func() bool { return len(f.placed("orders", "dev-alice")) == 0 })
	signal()
	relay.wait()
	<-said
	lost("/hurried", 0)
	again()

	said, _ = underWay("/half")
	relay.kill()
	if r := <-said; r != nil {
		t.Errorf("a relay that is killed has answered: %v", r)
	}
	lost("/half", http.StatusOK)
	again()

	said, _ = underWay("/killed")
	relay.kill()
	<-said
	lost("/killed", 0)
	f.eventually("the screen counts it", func() bool { r := laptop.status().Relay; return r != nil && r.Cut == 1 })
	rows := laptop.recorded("route:lost")
	if len(rows) != 3 || rows["/hurried"].Seq == 0 || rows["/half"].Seq == 0 || rows["/killed"].Seq == 0 {
		t.Errorf("%d are lost: %v", len(rows), rows)
	}
	if rows := laptop.recorded("st:5xx"); len(rows) > 0 { // no number that was not seen
		t.Errorf("a status that nobody has seen: %v", rows)
	}
	again()
	up.end() // before the relay
}
