package session_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

// callers calls the lane all the time through a session's proxy, and counts what
// is answered.
type callers struct {
	t          *testing.T
	mu         sync.Mutex
	got        map[string]int
	total      int
	quit, done chan struct{}
}

func (w *world) calls(proxy, target string) *callers {
	w.t.Helper()
	u, err := url.Parse(proxy)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &callers{t: w.t, got: map[string]int{}, quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u)}}
		defer client.CloseIdleConnections()
		for {
			select {
			case <-c.quit:
				return
			default:
			}
			answer := fetch(client, target)
			c.mu.Lock()
			c.got[answer]++
			c.total++
			c.mu.Unlock()
		}
	}()
	return c
}

func (c *callers) answered(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if what == "" {
		return c.total
	}
	return c.got[what]
}

// more waits for n more answers of a kind, "" for any.
func (c *callers) more(what string, n int) {
	c.t.Helper()
	from := c.answered(what)
	eventually(c.t, "more answers "+what, func() bool { return c.answered(what) >= from+n })
}

// stop ends the calls and fails the test for every answer of another kind.
func (c *callers) stop(want ...string) {
	c.t.Helper()
	close(c.quit)
	<-c.done
	for answer, n := range c.got {
		ok := false
		for _, w := range want {
			ok = ok || w == answer
		}
		if !ok {
			c.t.Errorf("%d of %d: %s", n, c.total, answer)
		}
	}
}

func TestTwoServeOneLaneByAgreement(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		orders := w.service("orders")
		isolated := consul.IsolatedName(w.lane, orders)
		w.baseline(orders)
		w.local.says("alice's")
		alice := run(t, w.auto("box"))
		first := alice.up()

		desk := newWorld(t, addr)
		desk.lane = w.lane
		desk.local.says("bob's")
		o := desk.auto("desk")
		o.Owner, o.Host, o.Join, o.Services[0].Name = "bob", "desk-2", true, orders
		bob := run(t, o)
		st := bob.up()
		if v := st.Services[0]; v.Registered != orders || !strings.Contains(v.Note, "beside the instance of alice on desk-1") {
			t.Errorf("bob's status: %+v", v)
		}
		if got := w.names(); got != orders+","+orders {
			t.Errorf("registered: %s", got)
		}
		eventually(t, "alice hears of it", func() bool {
			return strings.Contains(strings.Join(alice.status().Warnings, "\n"), "bob serves it in this lane too")
		})

		c := w.calls(st.Proxy, "http://"+orders+"/")
		c.more("200 alice's", 5)
		c.more("200 bob's", 5)

		// The holder leaves the own name, and so does who has joined it.
		w.stray(first.Services[0].Guard)
		eventually(t, "both isolated", func() bool { return w.names() == isolated+","+isolated })
		c.more("200 alice's", 5)
		c.more("200 bob's", 5)
		c.stop("200 alice's", "200 bob's")

		// The holder goes, and the claim stays with the lane.
		if err := alice.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		eventually(t, "the claim is bob's", func() bool {
			all, err := w.registry().Claims(t.Context(), w.lane)
			return err == nil && len(all) == 1 && all[0].Owner == "bob" && all[0].Session != ""
		})
		eventually(t, "bob knows", func() bool { return bob.status().Services[0].Note == "" })
		if got := w.names(); got != isolated {
			t.Errorf("registered: %s", got)
		}
		if err := bob.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		if got := w.names(); got != "" || len(w.claims()) > 0 {
			t.Errorf("left: %s %v", got, w.claims())
		}
		if err := w.registry().ClearPolicy(t.Context(), orders); err != nil {
			t.Error(err)
		}
	})
}

// With nobody to stand beside, who would join holds the claim.
func TestJoiningNobodyIsClaiming(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Join = true
	r := run(t, o)
	if v := r.up().Services[0]; v.Note != "" || len(w.claims()) != 1 {
		t.Errorf("status %+v, claims %v", v, w.claims())
	}
	_ = r.stop()
	w.empty()
}

// Who finds a service claimed is told when its holder last served a request.
func TestTheLastActivityIsTold(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := run(t, w.options("box"))
		st := r.up()
		second := w.options("desk")
		second.Owner = "bob"
		var held *consul.ClaimHeldError
		if err := run(t, second).wait(); !errors.As(err, &held) || held.Held.Active != "" || strings.Contains(err.Error(), "active") {
			t.Errorf("before a request: %v", err)
		}
		if code, _, err := w.ask(st, "/"); code != 200 || err != nil {
			t.Fatal(code, err)
		}
		key := "/v1/kv/lane/activity/" + string(w.lane) + "/" + w.service("orders") + "?keys"
		activity := func() (keys []string) { w.get(key, &keys); return keys }
		eventually(t, "the activity is written", func() bool { return len(activity()) == 1 })
		if err := run(t, second).wait(); !errors.As(err, &held) || !strings.Contains(err.Error(), "last active "+held.Held.Active) || held.Held.Active == "" {
			t.Errorf("after a request: %v", err)
		}
		_ = r.stop()
		if got := activity(); len(got) > 0 {
			t.Errorf("left: %v", got)
		}
		w.empty()
	})
}
