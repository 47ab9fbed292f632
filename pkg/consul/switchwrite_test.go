package consul_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// switches are as they were before lane, at the beginning and at the end: the
// real registry is shared.
func withoutKills(t *testing.T, c *consul.Client) {
	t.Helper()
	consul.PutKey(t, c, "lane/switches/kill", "")
	t.Cleanup(func() { consul.PutKey(t, c, "lane/switches/kill", "") })
}

func TestKillAndUnkill(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutKills(t, c)
		kill := func(l lane.Name, all bool) (lane.Switches, bool, error) { return c.Kill(deadline(t), l, all, false) }
		unkill := func(l lane.Name, all bool) (lane.Switches, bool, error) { return c.Unkill(deadline(t), l, all, false) }
		for i, s := range []struct {
			do      func(lane.Name, bool) (lane.Switches, bool, error)
			lane    lane.Name
			all     bool
			want    []lane.Name
			wantAll bool
			changed bool
		}{
			{unkill, "dev-bob", false, nil, false, false},
			{unkill, "", true, nil, false, false},
			{kill, "dev-bob", false, []lane.Name{"dev-bob"}, false, true},
			{kill, "dev-bob", false, []lane.Name{"dev-bob"}, false, false},
			{kill, "dev-alice", false, []lane.Name{"dev-alice", "dev-bob"}, false, true},
			{kill, "", true, []lane.Name{"dev-alice", "dev-bob"}, true, true},
			{kill, "", true, []lane.Name{"dev-alice", "dev-bob"}, true, false},
			{unkill, "dev-bob", false, []lane.Name{"dev-alice"}, true, true},
			{unkill, "", true, []lane.Name{"dev-alice"}, false, true},
			{unkill, "dev-alice", false, nil, false, true},
		} {
			got, changed, err := s.do(s.lane, s.all)
			if err != nil || changed != s.changed || got.KillAll != s.wantAll || !slices.Equal(got.KilledLanes, s.want) {
				t.Errorf("step %d: %+v changed=%v %v, want %+v", i, got, changed, err, s)
			}
			read, err := c.Switches(deadline(t))
			if err != nil || read.KillAll != s.wantAll || !slices.Equal(read.KilledLanes, s.want) {
				t.Errorf("step %d: the registry has %+v, %v", i, read, err)
			}
		}
		var invalid *consul.ValidationError
		if _, _, err := kill("Not_A_Lane", false); !errors.As(err, &invalid) {
			t.Errorf("no lane's name: %v", err)
		}
		if _, _, err := kill("all", false); !errors.As(err, &invalid) {
			t.Errorf("a reserved name: %v", err)
		}
	})
}

func TestKillsAtOnceAreAllKept(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutKills(t, c)
		names := []lane.Name{"dev-a", "dev-b", "dev-c", "dev-d", "dev-e", "dev-f", "dev-g", "dev-h"}
		var all sync.WaitGroup
		for _, n := range names {
			all.Go(func() {
				if _, _, err := c.Kill(deadline(t), n, false, false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got, err := c.Switches(deadline(t)); err != nil || !slices.Equal(got.KilledLanes, names) {
			t.Errorf("%v %v", got.KilledLanes, err)
		}
	})
}

// Others who are faster each time end the trying.
func TestAKillThatIsAlwaysLate(t *testing.T) {
	addr := consultest.Embedded(t)
	direct, f := open(t, addr), newFront(t, addr)
	n := 0
	f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut {
			n++
			consul.PutKey(t, direct, "lane/switches/kill", `{"lanes":["dev-`+strings.Repeat("x", n)+`"]}`)
		}
		next.ServeHTTP(w, r)
	})
	if _, changed, err := open(t, f.addr).Kill(deadline(t), "dev-bob", false, false); err == nil || changed || n < 2 {
		t.Errorf("after %d tries: changed=%v, %v", n, changed, err)
	}
}

func TestSetGroup(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("orders")
		for i, s := range []struct {
			group, before string
			changed       bool
		}{{"", "", false}, {"blue", "", true}, {"blue", "blue", false}, {"green", "blue", true}, {"", "green", true}, {"", "", false}} {
			before, changed, err := c.SetGroup(deadline(t), service, s.group, false)
			if err != nil || before != s.before || changed != s.changed {
				t.Errorf("step %d: %q %v %v, want %+v", i, before, changed, err, s)
			}
			if got, err := c.Switches(deadline(t)); err != nil || got.ActiveGroup[service] != s.group {
				t.Errorf("step %d: the registry has %q, %v", i, got.ActiveGroup[service], err)
			}
		}
		if _, _, err := c.SetGroup(deadline(t), "no/service", "blue", false); err == nil {
			t.Error("a name with a slash is a key of another shape")
		}
	})
}
