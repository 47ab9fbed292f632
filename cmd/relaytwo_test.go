//go:build unix

package cmd

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lane/pkg/control"
	"lane/tunnel/wiretest"
)

// Of two relays behind one address one ends: the laptop is at the other one while what is
// under way still comes by the first, and its service stands once. Then that one dies.
func TestOneOfTwoRelaysEnds(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.instance("orders", "orders-base", f.app("baseline").addr, nil)
	came, letGo := make(chan struct{}, 1), make(chan struct{})
	local := f.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			came <- struct{}{}
			<-letGo
		}
		_, _ = w.Write([]byte("laptop"))
	})
	_, port, _ := strings.Cut(local, ":")
	one, two := f.relay(), f.relay()
	if one.pin != two.pin {
		t.Fatalf("two relays of one machine have two certificates: %s, %s", one.pin, two.pin)
	}
	address := f.wire(one.addr, wiretest.Config{}) // as a load balancer's
	laptop := f.laptop(one, address.Addr(), f.token("alice", "dev-alice"))
	up := laptop.lane("dev-alice", "-s", "orders="+port, "--register", "shared")
	at := f.stands("orders", "dev-alice")
	_, gate, _ := f.router("gateway", "--route", "orders", "--rules", f.file("rules.yaml", "trustHeader: [127.0.0.0/8]\nrules: []\n"))
	c := f.caller()
	var good atomic.Int64
	load := f.load(2, func(int) error {
		r, err := c.get(gate, "x-lane-tag", "dev-alice")
		switch {
		case err != nil:
			return err
		case r.by("laptop") == nil:
			good.Add(1)
		case r.head.Get("X-Lane-Error") == "":
			return fmt.Errorf("it fell back: %v", r)
		}
		return nil
	})
	load.more(20)
	served := func(by *relayProcess) {
		t.Helper()
		f.eventually("the claim is at the other relay", func() bool {
			cl, held := f.claimOf("orders", "dev-alice")
			return held && !cl.Vacant && strings.HasSuffix(cl.Relay, by.addr[strings.LastIndexByte(by.addr, ':'):])
		})
		f.stands("orders", "dev-alice")
		was := good.Load()
		f.eventually("its callers get there", func() bool { return good.Load() >= was+20 })
		load.check()
		if s := laptop.relayState(); s != control.RelayOK {
			t.Errorf("the tunnel is %s", s)
		}
	}

	said := make(chan *reply, 1)
	go func() {
		r, _ := c.path(at, "/wait", "x-lane-tag", "dev-alice")
		said <- r
	}()
	<-came
	address.To(two.addr)
	if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	served(two)
	select {
	case <-one.done:
		t.Error("the first relay has ended while a request was under way")
	default:
	}
	close(letGo)
	if r := <-said; r == nil || r.by("laptop") != nil {
		t.Errorf("under way: %v", r)
	}
	one.wait()
	if lost := one.lines("lost"); len(lost) > 0 {
		t.Errorf("the first relay lost the tunnel: %v", lost)
	}

	one.start()
	address.To(one.addr)
	two.kill()
	served(one)
	t.Logf("%d requests, %d served by the laptop", load.end(), good.Load())
	up.end()
	if _, held := f.claimOf("orders", "dev-alice"); held || len(f.placed("orders", "dev-alice")) > 0 {
		t.Error("something is left")
	}
}
