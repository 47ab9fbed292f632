package consul_test

import (
	"strings"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

// Every write to a watched prefix wakes every router of the environment, so
// what changes often lies elsewhere. (Consul wakes the watch of a prefix that
// holds nothing also for its neighbours; the watch's pace bounds that.)
func TestWhatIsNotWatchedWakesNobody(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		direct := open(t, addr)
		f := newFront(t, addr)
		service, l := unique("stock"), unique("dev-alice")
		consul.RegisterBaseline(t, direct, service, service+"-1", "127.0.0.1", 9001, nil)
		if err := session(t, direct).Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		w := watcher(t, open(t, f.addr), consul.WatchOptions{LeaderEvery: time.Hour})
		need(t, w, service)
		f.requests()
		for range 20 {
			other := unique("other")
			consul.PutKey(t, direct, "lane/activity/"+l+"/"+service, other)
			consul.RegisterBaseline(t, direct, other, other+"-1", "127.0.0.1", 9002, nil)
		}
		// A watched change, before which the others must have arrived, too.
		consul.PutKey(t, direct, "lane/switches/active/"+service, "blue")
		defer consul.PutKey(t, direct, "lane/switches/active/"+service, "")
		eventually(t, "the switch", func() bool { return w.Catalog().Switches.ActiveGroup[service] == "blue" })
		var woken []string
		for _, r := range f.requests() {
			if !strings.Contains(r, "/lane/switches/") {
				woken = append(woken, r)
			}
		}
		// The first wait of a watch can still be on its way when Need returns.
		if len(woken) > 2 {
			t.Errorf("%d wake-ups: %v", len(woken), woken)
		}
	})
}
