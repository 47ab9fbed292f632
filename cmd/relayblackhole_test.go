//go:build unix

package cmd

import (
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tunnel/wiretest"
)

// deadPeer is a bound on how long a dead peer may stay unknown: 10 s, and what a busy
// machine adds; yamux's own settings need 40.
const deadPeer = 30 * time.Second

// A cable that is pulled closes nothing. Relay and laptop, each a process, find it out by
// themselves; the request under way is told so and sent to nobody a second time; the
// laptop is back by itself when the cable is, and nothing has piled up in either.
func TestABlackholeBeforeTheRelay(t *testing.T) {
	t.Parallel()
	f := newField(t)
	for _, service := range []string{"orders", "stock"} {
		f.instance(service, service+"-base", f.app("baseline").addr, nil)
	}
	// The twin has the same, and nothing befalls it.
	type pair struct {
		relay  *relayProcess
		wire   *wiretest.Wire
		laptop *field
		up     *process
		at     string
	}
	var posts, gets atomic.Int64
	came, letGo := make(chan struct{}, 1), make(chan struct{})
	local := f.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
			came <- struct{}{}
			<-letGo
			return
		}
		gets.Add(1)
		_, _ = w.Write([]byte("laptop"))
	})
	_, port, _ := strings.Cut(local, ":")
	start := func(service string) (p pair) {
		p.relay = f.relay()
		p.wire = f.wire(p.relay.addr, wiretest.Config{})
		p.laptop = f.laptop(p.relay, p.wire.Addr(), f.token("alice", "dev-alice"))
		p.up = p.laptop.lane("dev-alice", "-s", service+"="+port, "--register", "shared")
		p.at = f.stands(service, "dev-alice")
		return p
	}
	cut, twin := start("orders"), start("stock")
	c := f.caller()
	served := func(at string) {
		t.Helper()
		if r, err := c.get(at, "x-lane-tag", "dev-alice"); err != nil || r.by("laptop") != nil {
			t.Fatalf("%v %v", r, err)
		}
	}
	served(cut.at)
	served(twin.at)

	said := make(chan *reply, 1)
	go func() {
		defer close(said)
		req, _ := http.NewRequest(http.MethodPost, "http://"+cut.at+"/once", strings.NewReader("once"))
		req.Header.Set("x-lane-tag", "dev-alice")
		if r, err := c.do(req); err == nil {
			said <- r
		}
	}()
	<-came
	cut.wire.Freeze()
	began := time.Now()
	f.eventually("the registry shows that the tunnel is lost", func() bool {
		in := f.placed("orders", "dev-alice")
		return len(in) == 1 && in[0].Health == lane.Critical && strings.Contains(in[0].HealthNote, "the tunnel to the laptop is lost")
	})
	relayFound := time.Since(began)
	f.eventually("the laptop knows", func() bool { s := cut.laptop.status().Relay; return s != nil && s.State != control.RelayOK })
	if both := time.Since(began); relayFound > deadPeer || both > deadPeer {
		t.Errorf("the relay found out after %v, both after %v", relayFound, both)
	} else {
		t.Logf("the relay found out after %v, both after %v", relayFound, both)
	}
	if r := <-said; r == nil || r.status != http.StatusBadGateway || r.head.Get("X-Lane-Error") != "E_RELAY_LOST" || !strings.Contains(r.body, "lane-relay-lost") {
		t.Errorf("under way: %v", r)
	}
	f.eventually("the laptop has it as lost", func() bool {
		e, ok := cut.laptop.recorded("m:post")["/once"]
		return ok && e.Route == traffic.RouteLost && e.Code == "E_RELAY_LOST" && e.Status == 0
	})
	if r, err := c.get(cut.at, "x-lane-tag", "dev-alice"); err != nil || r.status != http.StatusBadGateway || r.head.Get("X-Lane-Error") != "E_RELAY_LOST" {
		t.Errorf("meanwhile: %v %v", r, err)
	}
	if r, err := c.get(cut.at); err != nil || r.by("baseline") != nil {
		t.Errorf("untagged, meanwhile: %v %v", r, err)
	}
	if _, held := f.claimOf("orders", "dev-alice"); !held {
		t.Error("the claim is gone")
	}
	if s := twin.laptop.status().Relay; s == nil || s.State != control.RelayOK {
		t.Errorf("the twin: %+v", s)
	}
	close(letGo) // what it answers now goes nowhere

	cut.wire.Cut()
	cut.wire.Thaw()
	back := func() {
		t.Helper()
		f.eventually("the tunnel is back", func() bool { s := cut.laptop.status().Relay; return s != nil && s.State == control.RelayOK })
		if at := f.stands("orders", "dev-alice"); at != cut.at {
			t.Errorf("it stands at %s, and stood at %s", at, cut.at)
		}
		served(cut.at)
	}
	back()
	if n := posts.Load(); n != 1 {
		t.Errorf("the application got the request %d times", n)
	}
	for range 5 { // links that come and go leave nothing
		since := cut.laptop.status().Relay.Since
		cut.wire.Cut()
		f.eventually("it is cut", func() bool {
			s := cut.laptop.status().Relay
			return s != nil && !s.Since.Equal(since)
		})
		back()
	}
	if lost := cut.relay.lines("lost"); len(lost) == 0 || len(cut.relay.lines("gone")) > 0 || len(twin.relay.lines("lost")) > 0 {
		t.Errorf("the audit logs: lost %v, the twin's %v", lost, twin.relay.lines("lost"))
	}

	// As many goroutines as the twin, and no file more.
	for _, p := range []struct {
		name      string
		was, twin *process
	}{{"laptop", cut.up, twin.up}, {"relay", cut.relay.process, twin.relay.process}} {
		if p.name == "relay" { // each laptop's guardian has asked its own to give the service up
			for _, service := range []string{"orders", "stock"} {
				f.eventually(service+" is given up", func() bool { _, held := f.claimOf(service, "dev-alice"); return !held })
			}
			for _, r := range []*relayProcess{cut.relay, twin.relay} { // with links of their own
				f.eventually("the guardians have left", func() bool { return f.metric(r.admin, "lane_relay_links") == 0 })
			}
		}
		was, twin := p.was.goroutines(), p.twin.goroutines()
		t.Logf("the %s has %d goroutines, the twin %d", p.name, was, twin)
		if was > twin+10 {
			for text, n := range p.was.created() {
				if m := p.twin.created()[text]; n > m {
					t.Logf("%d and not %d %s", n, m, text)
				}
			}
			t.Errorf("the %s has %d goroutines, the twin %d", p.name, was, twin)
		}
	}
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ `)

// goroutines ends a process by the signal at which it tells them, and counts them.
func (p *process) goroutines() int {
	p.f.t.Helper()
	p.ends = true
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		p.f.t.Fatal(err)
	}
	limit := time.NewTimer(storyLimit)
	defer limit.Stop()
	select {
	case <-p.done:
	case <-limit.C:
		p.f.t.Fatalf("%q does not end", p.argv)
	}
	return len(goroutine.FindAllString(p.err.String(), -1))
}

var createdBy = regexp.MustCompile(`(?m)^created by (\S+)`)

// created is how many goroutines of a process that has told them each function has made.
func (p *process) created() map[string]int {
	all := map[string]int{}
	for _, m := range createdBy.FindAllStringSubmatch(p.err.String(), -1) {
		all[m[1]]++
	}
	return all
}
