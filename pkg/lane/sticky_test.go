package lane

import (
	"fmt"
	"math"
	"testing"
)

// versions is a baseline of instances "ID version weight".
func versions(in ...Instance) *Catalog {
	return NewCatalog(Trust{}, nil, Switches{}, NewService("orders", in, nil))
}

func at(id, version string, weight int) Instance {
	return Instance{ID: id, Addr: id + ":80", Version: version, Weight: weight}
}

// seat is the version that each of many users gets.
func seat(t *testing.T, c *Catalog, req Request) map[string]string {
	t.Helper()
	r, out := mustRouter(t, nil), map[string]string{}
	for i := range 2000 {
		user := fmt.Sprintf("u-%d", i)
		req.Service, req.StickyKey = "orders", user
		for n := range uint64(3) {
			d := r.Decide(c, req)
			in := Pick(&d, n)
			if in == nil {
				t.Fatalf("%s: %s", user, d.Header(nil))
			}
			if was, ok := out[user]; ok && was != in.Version {
				t.Fatalf("%s got %s, and then %s", user, was, in.Version)
			}
			out[user] = in.Version
		}
	}
	return out
}

func share(seats map[string]string, version string) float64 {
	n := 0
	for _, v := range seats {
		if v == version {
			n++
		}
	}
	return float64(n) / float64(len(seats))
}

func moved(t *testing.T, a, b map[string]string, to string) (n int) {
	t.Helper()
	for user, v := range a {
		if b[user] != v {
			n++
			if b[user] != to {
				t.Errorf("%s went from %s to %s", user, v, b[user])
			}
		}
	}
	return n
}

// A user stays in his version, whatever instance he is served by, and whatever ID it
// has after its restart; and the versions have the shares that their weights say.
func TestStickyKeyKeepsTheVersion(t *testing.T) {
	before := seat(t, versions(at("a", "v1", 1), at("b", "v1", 2), at("c", "v2", 1)), Request{})
	if got := share(before, "v2"); math.Abs(got-0.25) > 0.03 {
		t.Errorf("v2 has %v of the users, want a quarter", got)
	}
	for name, c := range map[string]*Catalog{
		"an instance has another ID":   versions(at("a", "v1", 1), at("b", "v1", 2), at("new", "v2", 1)),
		"all have other IDs":           versions(at("x", "v2", 1), at("y", "v1", 2), at("z", "v1", 1)),
		"one of two takes over":        versions(at("b", "v1", 3), at("c", "v2", 1)),
		"twice as many, as before":     versions(at("a", "v1", 3), at("b", "v1", 3), at("c", "v2", 1), at("d", "v2", 1)),
		"one that drains counts not":   versions(at("a", "v1", 1), at("b", "v1", 2), at("c", "v2", 1), at("d", "v2", 0)),
		"in a lane, which has its own": NewCatalog(Trust{}, nil, Switches{}, NewService("orders", lanes(at("a", "v1", 3), at("c", "v2", 1)), nil)),
	} {
		req := Request{}
		if name == "in a lane, which has its own" {
			req.Tag = ParseTag("gray")
		}
		if n := moved(t, before, seat(t, c, req), ""); n > 0 {
			t.Errorf("%s: %d users have another version", name, n)
		}
	}
	more := seat(t, versions(at("a", "v1", 1), at("c", "v2", 1)), Request{})
	if n := moved(t, before, more, "v2"); n == 0 || math.Abs(share(more, "v2")-0.5) > 0.03 {
		t.Errorf("v2 grows to %v of the users, and %d moved", share(more, "v2"), n)
	}
	if gone := seat(t, versions(at("a", "v1", 3)), Request{}); share(gone, "v1") != 1 {
		t.Error("without v2 there is v1 for all")
	}
}

func lanes(in ...Instance) []Instance {
	for i := range in {
		in[i].MetaLane = "gray"
	}
	return in
}

// Without a key, or with a version that is asked for, nothing is as a key says.
func TestNoStickyKey(t *testing.T) {
	c := versions(at("a", "v1", 1), at("c", "v2", 1))
	r := mustRouter(t, nil)
	if d := r.Decide(c, Request{Service: "orders", TraceID: "t-1"}); len(d.Chosen) != 2 {
		t.Errorf("without a key: %v", d.Chosen)
	}
	for i := range 50 {
		d := r.Decide(c, Request{Service: "orders", StickyKey: fmt.Sprint(i), Version: "v2"})
		if len(d.Chosen) != 1 || d.Chosen[0].Instance.ID != "c" {
			t.Fatalf("v2 is asked for: %v", d.Chosen)
		}
	}
	ex := r.Explain(c, Request{Service: "orders", StickyKey: "u-1"})
	for _, v := range ex.Instances {
		if want := "version " + v.Instance.Version + ": the request's key is in " + ex.Decision.Chosen[0].Instance.Version; !v.Chosen && v.Why != want {
			t.Errorf("%q, want %q", v.Why, want)
		}
	}
	same := versions(at("a", "v1", 1), at("c", "v1", 1))
	if d := r.Decide(same, Request{Service: "orders", StickyKey: "u-1"}); len(d.Chosen) != 2 {
		t.Errorf("one version only: %v", d.Chosen)
	}
}
