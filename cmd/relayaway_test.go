//go:build unix

package cmd

import (
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/tunnel/wiretest"
)

// A laptop that is closed for longer than the relay keeps an instance: its callers get an
// error and never the baseline, and when it wakes it has back what it had.
func TestALaptopBehindARelaySleepsLong(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.instance("orders", "orders-base", f.app("baseline").addr, nil)
	came, letGo := make(chan struct{}, 1), make(chan struct{})
	local := f.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			came <- struct{}{}
			<-letGo
		}
		_, _ = w.Write([]byte("laptop"))
	})
	defer close(letGo)
	_, port, _ := strings.Cut(local, ":")
	relay := f.relay()
	laptop := f.laptop(relay, relay.addr, f.token("alice", "dev-alice"))
	up := laptop.lane("dev-alice", "-s", "orders="+port, "--register", "shared")
	at := f.stands("orders", "dev-alice")
	_, gate, _ := f.router("gateway", "--route", "orders", "--rules", f.file("rules.yaml", "trustHeader: [127.0.0.0/8]\nrules: []\n"))
	c := f.caller()
	ask := func() (*reply, error) { return c.get(gate, "x-lane-tag", "dev-alice") }
	if r, err := ask(); err != nil || r.by("laptop") != nil {
		t.Fatalf("%v %v", r, err)
	}
	said := make(chan *reply, 1)
	go func() {
		req, _ := http.NewRequest(http.MethodPost, "http://"+at+"/", strings.NewReader("once"))
		req.Header.Set("x-lane-tag", "dev-alice")
		r, _ := c.do(req)
		said <- r
	}()
	<-came
	if err := up.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awake := func() { _ = up.cmd.Process.Signal(syscall.SIGCONT) } // it has ended, or runs
	t.Cleanup(awake)
	asleep := time.Now()
	f.eventually("it is critical", func() bool {
		in := f.placed("orders", "dev-alice")
		return len(in) == 1 && in[0].Health == lane.Critical
	})
	if d := time.Since(asleep); d > deadPeer {
		t.Errorf("critical after %v", d)
	}
	if r := <-said; r == nil || r.status != http.StatusBadGateway || r.head.Get("X-Lane-Error") != "E_RELAY_LOST" {
		t.Errorf("under way: %v", r)
	}
	var fell atomic.Int64
	load := f.load(1, func(int) error {
		r, err := ask()
		if err == nil && r.by("baseline") == nil {
			fell.Add(1)
		}
		return err
	})
	f.eventually("the instance is removed", func() bool { return len(f.placed("orders", "dev-alice")) == 0 })
	t.Logf("removed after %v", time.Since(asleep))
	if cl, held := f.claimOf("orders", "dev-alice"); !held || cl.Owner != "alice" || !cl.Vacant {
		t.Errorf("the claim: %+v", cl)
	}
	f.eventually("its callers are told", func() bool {
		r, err := ask()
		return err == nil && r.head.Get("X-Lane-Error") == "E_LANE_UNHEALTHY" && strings.Contains(r.head.Get("X-Lane-Decision"), "lane_declared_but_absent")
	})
	load.end()
	if n := fell.Load(); n > 0 {
		t.Errorf("%d requests of the lane fell back to the baseline", n)
	}

	awake()
	f.eventually("the tunnel is back", func() bool { return laptop.relayState() == control.RelayOK })
	f.stands("orders", "dev-alice")
	if cl, held := f.claimOf("orders", "dev-alice"); !held || cl.Owner != "alice" || cl.Vacant {
		t.Errorf("the claim: %+v", cl)
	}
	f.eventually("its callers get there", func() bool { r, err := ask(); return err == nil && r.by("laptop") == nil })
	up.end()
}

// A network that closes what has been silent for a while does not close the tunnel: its
// pings come in time. A caller's port that nobody uses stays as well.
func TestATunnelThatNobodyUses(t *testing.T) {
	t.Parallel()
	const silence = 15 * time.Second // three pings; what stands between closes after 60 s, commonly
	f := newField(t)
	relay := f.relay()
	w := f.wire(relay.addr, wiretest.Config{Idle: silence})
	laptop := f.laptop(relay, w.Addr(), f.token("alice", "dev-alice"))
	up := laptop.lane("dev-alice", "-s", "orders="+f.app("laptop").port(), "--register", "shared")
	at := f.stands("orders", "dev-alice")
	links := w.Taken()
	idle := time.NewTimer(2 * silence)
	defer idle.Stop()
	select {
	case <-idle.C:
	case <-up.done:
		t.Fatalf("the session has ended: %s", &up.err)
	}
	if r, err := f.caller().get(at, "x-lane-tag", "dev-alice"); err != nil || r.by("laptop") != nil {
		t.Errorf("%v %v", r, err)
	}
	if n := w.Taken(); n != links || len(relay.lines("lost")) > 0 {
		t.Errorf("%d connections, and %d before; lost: %v", n, links, relay.lines("lost"))
	}
	up.end()
}

// A process that stands at a breakpoint answers nothing, and lives: its instance is
// critical for as long, and is not removed.
func TestABreakpointBehindARelay(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.instance("orders", "orders-base", f.app("baseline").addr, nil)
	var stands atomic.Bool
	goOn := make(chan struct{})
	local := f.serve(func(w http.ResponseWriter, r *http.Request) {
		if stands.Load() {
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
		_, _ = w.Write([]byte("laptop"))
	})
	_, port, _ := strings.Cut(local, ":")
	relay := f.relay()
	laptop := f.laptop(relay, relay.addr, f.token("alice", "dev-alice"))
	laptop.dir = t.TempDir()
	conf := *laptop
	conf.file("lane.yaml", "services:\n  orders: { port: "+port+", health: /healthz }\n")
	up := laptop.lane("dev-alice", "--register", "shared")
	at := f.stands("orders", "dev-alice")
	stands.Store(true)
	f.eventually("it is critical", func() bool {
		in := f.placed("orders", "dev-alice")
		return len(in) == 1 && in[0].Health == lane.Critical && strings.Contains(in[0].HealthNote, "/healthz does not answer")
	})
	if st := laptop.status(); st.Relay.State != control.RelayOK || st.Services[0].State != control.StateLocalClosed {
		t.Errorf("%+v %+v", st.Relay, st.Services)
	}
	if lost, gone := relay.lines("lost"), relay.lines("gone"); len(lost)+len(gone) > 0 {
		t.Errorf("lost %v, gone %v", lost, gone)
	}
	stands.Store(false)
	close(goOn)
	if again := f.stands("orders", "dev-alice"); again != at {
		t.Errorf("it stands at %s, and stood at %s", again, at)
	}
	if r, err := f.caller().get(at, "x-lane-tag", "dev-alice"); err != nil || r.by("laptop") != nil {
		t.Errorf("%v %v", r, err)
	}
	up.end()
}
