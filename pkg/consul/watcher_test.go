package consul_test

import (
	"slices"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

func need(t *testing.T, w *consul.Watcher, service string) *lane.Service {
	t.Helper()
	if err := w.Need(deadline(t), service); err != nil {
		t.Fatal(err)
	}
	s := w.Catalog().Service(service)
	if s == nil || !s.HasSnapshot {
		t.Fatalf("Need returned without an answer in the catalog: %+v", s)
	}
	return s
}

func TestTheWatchSeesWhatChanges(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("stock")
		consul.RegisterBaseline(t, c, service, service+"-1", "127.0.0.1", 9001, map[string]string{"zone": "a"})
		w := watcher(t, c, consul.WatchOptions{})
		begin := time.Now()
		s := need(t, w, service)
		t.Logf("first answer in %v", time.Since(begin))
		index := w.Index()
		if index == 0 {
			t.Error("an answer without an index")
		}
		if len(s.Instances) != 1 || s.Instances[0].Addr != "127.0.0.1:9001" || s.Instances[0].Zone != "a" ||
			!s.Instances[0].FirstSeen.IsZero() || s.Instances[0].Health != lane.Passing {
			t.Fatalf("%+v", s.Instances)
		}
		if got := w.Catalog().Trust.State; got != lane.Fresh {
			t.Errorf("trust %v", got)
		}
		is := func(n int, health lane.Health) func() bool {
			return func() bool {
				s := w.Catalog().Service(service)
				return len(s.Instances) == n && (n == 0 || s.Instances[0].Health == health)
			}
		}
		// A query waits longer than the test does: what is seen has woken it.
		consul.RegisterBaseline(t, c, service, service+"-2", "127.0.0.2", 9002, nil)
		eventually(t, "two", is(2, lane.Passing))
		if got := w.Catalog().Service(service).Instances[1]; got.FirstSeen.IsZero() {
			t.Errorf("the new one was not seen before: %+v", got)
		}
		eventually(t, "a higher index", func() bool { return w.Index() > index })
		consul.SetBaseline(t, c, service+"-1", "critical", "down")
		eventually(t, "critical", is(2, lane.Critical))
		if got := w.Catalog().Service(service).Instances[0]; got.HealthNote != "down" || !got.FirstSeen.IsZero() {
			t.Errorf("%+v", got)
		}
		consul.SetBaseline(t, c, service+"-1", "warning", "slow")
		eventually(t, "warning", is(2, lane.Warning))
		consul.RemoveBaseline(t, c, service+"-2")
		eventually(t, "one", is(1, lane.Warning))
		consul.RemoveBaseline(t, c, service+"-1")
		eventually(t, "none", is(0, lane.Warning))
		if !w.Catalog().Service(service).HasSnapshot {
			t.Error("an empty answer is an answer")
		}
	})
}

func TestUnchangedAnswersPublishNothing(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("stock")
		consul.RegisterBaseline(t, c, service, service+"-1", "127.0.0.1", 9001, nil)
		w := watcher(t, c, consul.WatchOptions{Wait: 20 * time.Millisecond, LeaderEvery: 20 * time.Millisecond})
		need(t, w, service)
		before := w.Catalog()
		since := w.Trust().Since
		eventually(t, "some leader asks", func() bool { return w.Trust().Since.Sub(since) > 200*time.Millisecond })
		if w.Catalog() != before {
			t.Error("published without a change")
		}
	})
}

func TestServicesThatDoNotExistHaveAnEmptyAnswer(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := watcher(t, open(t, addr), consul.WatchOptions{})
		if s := need(t, w, unique("nobody")); len(s.Instances) != 0 {
			t.Errorf("%+v", s)
		}
		for _, bad := range []string{"", "a/b", "a?b", "a b", "ä"} {
			if err := w.Need(deadline(t), bad); err == nil {
				t.Errorf("%q is no service", bad)
			}
		}
	})
}

func TestDeclaredIsAKeyWithASession(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("orders")
		alice := session(t, c)
		l := unique("dev-alice")
		cl := claim(l, service, "alice")
		consul.PutKey(t, c, "lane/declared/dev-nobody/"+service, `{"owner":"nobody"}`)
		defer consul.PutKey(t, c, "lane/declared/dev-nobody/"+service, "")
		if err := alice.Claim(deadline(t), cl); err != nil {
			t.Fatal(err)
		}
		w := watcher(t, c, consul.WatchOptions{})
		s := need(t, w, service) // the first answer already has the claims
		if !slices.Equal(s.Declared, []lane.Name{lane.Name(l)}) {
			t.Errorf("declared %v", s.Declared)
		}
		for _, got := range w.Catalog().Claims {
			if got.Service == service && got.Lane == "dev-nobody" && (got.Session != "" || got.Owner != "nobody") {
				t.Errorf("%+v", got)
			}
		}
		if err := alice.Release(deadline(t), cl.Lane, service); err != nil {
			t.Fatal(err)
		}
		eventually(t, "nothing declared", func() bool { return len(w.Catalog().Service(service).Declared) == 0 })
	})
}

func TestIsolatedNamesCountOnlyUnderAClaim(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("o"), unique("dev-a")
		iso := consul.IsolatedName(lane.Name(l), service)
		r := registration(l, service)
		r.Name = iso
		h := c.NewHold(r, consul.HoldOptions{App: true})
		defer func() {
			if err := h.Deregister(deadline(t)); err != nil {
				t.Error(err)
			}
		}()
		if err := h.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		// Others under the same name: not of the lane, so not to be let in.
		consul.RegisterBaseline(t, c, iso, service+"-x", "127.0.0.9", 9, nil)
		consul.RegisterBaseline(t, c, iso, service+"-y", "127.0.0.9", 9, map[string]string{"lane": "dev-other", "lane-local": "true"})

		w := watcher(t, c, consul.WatchOptions{})
		if s := need(t, w, service); len(s.Instances) != 0 {
			t.Fatalf("no claim names it: %+v", s.Instances)
		}
		alice := session(t, c)
		cl := claim(l, service, "alice")
		cl.Registered, cl.Mode = iso, "isolated"
		if err := alice.Claim(deadline(t), cl); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the lane's instance is in", func() bool {
			in := w.Catalog().Service(service).Instances
			return len(in) == 1 && in[0].ID == r.ID && in[0].Registered == iso
		})
		// Whoever asks first when the claim stands gets all of it at once.
		w2 := watcher(t, c, consul.WatchOptions{})
		if s := need(t, w2, service); len(s.Instances) != 1 || len(s.Declared) != 1 {
			t.Errorf("%+v %v", s.Instances, s.Declared)
		}
		names, err := w2.Services(deadline(t))
		if err != nil || slices.Contains(names, iso) {
			t.Errorf("an isolated name is no service: %v %v", names, err)
		}
		got := of(t, c, lane.Name(l), service)
		if len(got) != 1 || got[0].Registered != iso {
			t.Errorf("LaneInstances: %+v", got)
		}
		if err := alice.Release(deadline(t), cl.Lane, service); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is out again", func() bool { return len(w.Catalog().Service(service).Instances) == 0 })
	})
}

func TestSwitchesAreRead(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("stock")
		w := watcher(t, c, consul.WatchOptions{})
		need(t, w, service)
		consul.PutKey(t, c, "lane/switches/active/"+service, "green")
		defer consul.PutKey(t, c, "lane/switches/active/"+service, "")
		eventually(t, "the active group", func() bool { return w.Catalog().Switches.ActiveGroup[service] == "green" })
		if w.Catalog().Switches.KillAll {
			t.Error("nothing was killed")
		}
		consul.PutKey(t, c, "lane/switches/kill", `{"lanes":["dev-eve"]}`)
		defer consul.PutKey(t, c, "lane/switches/kill", "")
		eventually(t, "the killed lane", func() bool { return slices.Contains(w.Catalog().Switches.KilledLanes, "dev-eve") })
	})
}
