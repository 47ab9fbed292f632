//go:build unix

package cmd

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lane/pkg/control"
)

// A relay that is ended, and one that is killed, start again: every laptop is back, has
// what it had, and the registry shows it once. What is under way when one is ended comes
// to its end.
func TestARelayThatRestarts(t *testing.T) {
	t.Parallel()
	f := newField(t)
	came, letGo := make(chan struct{}, 1), make(chan struct{})
	local := f.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			came <- struct{}{}
			<-letGo
		}
		fmt.Fprintf(w, "laptop %s", r.Header.Get("x-lane-tag"))
	})
	_, port, _ := strings.Cut(local, ":")
	f.instance("orders", "orders-base", f.app("baseline").addr, nil)
	relay := f.relay()
	users := []string{"alice", "bob", "carol"}
	laptops := map[string]*field{}
	at := map[string]string{}
	var sessions []*process
	defer func() { // before the relay
		for _, s := range sessions {
			s.end()
		}
	}()
	for _, u := range users {
		laptops[u] = f.laptop(relay, relay.addr, f.token(u, "dev-"+u), "LANE_OWNER="+u)
		sessions = append(sessions, laptops[u].lane("dev-"+u, "-s", "orders="+port, "--register", "shared"))
		at[u] = f.stands("orders", "dev-"+u)
	}
	c := f.caller()
	_, gate, _ := f.router("gateway", "--route", "orders", "--rules", f.file("rules.yaml", "trustHeader: [127.0.0.0/8]\nrules: []\n"))
	// All the while the lanes' requests are served by their laptops, or get an error: none
	// falls back to the baseline in silence, as by a port that is another claim's by now.
	var good atomic.Int64
	asked := f.load(3, func(i int) error {
		u := users[i%len(users)]
		r, err := c.get(gate, "x-lane-tag", "dev-"+u)
		switch {
		case err != nil:
			return err
		case r.by("laptop") == nil && r.body == "laptop dev-"+u:
			good.Add(1)
			return nil
		case r.head.Get("X-Lane-Error") != "":
			return nil
		}
		return fmt.Errorf("for %s: %v", u, r)
	})
	asked.more(30)
	whole := func(when string, began time.Time) {
		t.Helper()
		for _, u := range users {
			f.eventually(u+"'s tunnel is back", func() bool { return laptops[u].relayState() == control.RelayOK })
			to := f.stands("orders", "dev-"+u)
			r, err := c.get(to, "x-lane-tag", "dev-"+u)
			at[u] = to
			if err != nil || r.by("laptop") != nil || r.body != "laptop dev-"+u {
				t.Errorf("%s: %s: %v %v", when, u, r, err)
			}
			if cl, held := f.claimOf("orders", "dev-"+u); !held || cl.Owner != u || cl.Vacant {
				t.Errorf("%s: the claim of %s: %+v", when, u, cl)
			}
		}
		if n := int(f.metric(relay.admin, "lane_relay_claims")); n != len(users) {
			t.Errorf("%s: the relay has %d claims", when, n)
		}
		served := good.Load()
		f.eventually("the lanes are served again", func() bool { return good.Load() >= served+30 })
		asked.check()
		t.Logf("%s: all back after %v", when, time.Since(began))
	}

	said := make(chan *reply, 1)
	go func() {
		r, _ := c.path(at["alice"], "/wait", "x-lane-tag", "dev-alice")
		said <- r
	}()
	<-came
	if err := relay.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, u := range users { // at once, and not when it ends
		f.eventually("no instance of "+u+"'s", func() bool { return len(f.placed("orders", "dev-"+u)) == 0 })
	}
	select {
	case <-relay.done:
		t.Error("the relay has ended while a request was under way")
	default:
	}
	close(letGo)
	if r := <-said; r == nil || r.by("laptop") != nil {
		t.Errorf("under way: %v", r)
	}
	relay.wait()
	for _, u := range users {
		if cl, held := f.claimOf("orders", "dev-"+u); !held || !cl.Vacant {
			t.Errorf("the claim of %s: %+v", u, cl)
		}
	}
	began := time.Now()
	relay.start()
	whole("ended", began)

	ups := len(relay.lines("up"))
	relay.kill()
	began = time.Now()
	relay.start()
	// What the registry shows is the dead one's until each has claimed anew.
	f.eventually("all have claimed", func() bool { return len(relay.lines("up")) >= ups+len(users) })
	before := maps.Clone(at)
	whole("killed", began)
	if !maps.Equal(at, before) { // a port that is still registered is another's for nobody
		t.Errorf("they stand at %v, and stood at %v", at, before)
	}
	t.Logf("%d requests, %d served by the laptops", asked.end(), good.Load())
}

// wait waits until it ends by itself: well, if it was not said that it may end otherwise.
func (p *process) wait() {
	p.f.t.Helper()
	limit := time.NewTimer(storyLimit)
	defer limit.Stop()
	select {
	case <-p.done:
		if p.ended != nil && !p.ends {
			p.f.t.Errorf("%q: %v\n%s", p.argv, p.ended, &p.err)
		}
	case <-limit.C:
		p.f.t.Fatalf("%q does not end", p.argv)
	}
}
