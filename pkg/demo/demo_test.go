package demo

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options() Options { return Options{Now: time.Now} }

// emptyTemp gives the demo a temporary directory of its own, which has to be
// empty at the end.
func emptyTemp(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // a socket's path is short by nature, a test's directory is not
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left in the temporary directory: %v %v", left, err)
		}
		_ = os.RemoveAll(dir)
	})
}

func TestTheTourHolds(t *testing.T) {
	emptyTemp(t)
	var told []Shown
	r, err := Tour(t.Context(), options(), func(s Shown) error {
		told = append(told, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range told {
		if !s.OK || s.N != i+1 || s.Text == "" || s.Detail == "" {
			t.Errorf("step %+v", s)
		}
		if n := len(s.Text); n > 80-len("35  ok     ") {
			t.Errorf("%q is too long for a line of 80", s.Text)
		}
	}
	if n := len(theTour()); !r.OK || len(told) != n || len(r.Steps) != n || r.Schema != ReportSchema {
		t.Errorf("ok %v, %d steps told, %d reported, %d in the tour", r.OK, len(told), len(r.Steps), n)
	}
}

// in runs f in a world of its own.
func in(t *testing.T, f func(ctx context.Context, w *World) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	return Run(ctx, options(), f)
}

func quiet(Shown) error { return nil }

// forgetful loses the trace id on its way.
type forgetful struct{ http.RoundTripper }

func (f forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del(passedOn)
	return f.RoundTripper.RoundTrip(r)
}

func (f forgetful) CloseIdleConnections() { f.RoundTripper.(*http.Transport).CloseIdleConnections() }

// Each claim can be wrong: the tour says so where the world is not as claimed,
// and goes on.
func TestAWrongClaimIsSeen(t *testing.T) {
	const (
		asNobody   = "no rule wants it: the baseline serves everything"
		asAlice    = "cookie user=dev2: alice's local reviews, all else the baseline"
		asBob      = "header X-Tester: bob: the chain leaves his lane and comes back to it"
		asQuery    = "?preview=ratings: his lane, too"
		difference = "her reviews answer differently, to her alone"
		fivePer100 = "5 % of the users: the very ones whom the hash names"
		next       = "each of them gets the next details"
		tagAgain   = "services pass on x-request-id alone: the sidecars find the tag again"
		mix        = "25 requests at once: no tag ever gets into another's lane"
		bounced    = "no tag at alice's registered address: bounced, her process not called"
		gateway    = "a gateway is the entry, and colors by the rules in the registry"
		untrusted  = "who names a lane without a rule is not believed"
		customers  = "customers came all the while, and noticed nothing"
		strays     = "no local process was ever asked without its lane's tag"
		rolledBack = "rolled back: the same users as at first"
	)
	for _, c := range []struct {
		name  string
		spoil func(ctx context.Context, w *World) error
		says  []string // the steps that have to be WRONG
		fine  []string // and others that stay right
	}{
		{"the baseline's reviews are down",
			func(ctx context.Context, w *World) error {
				return errors.Join(w.shop[reviews].process.stop(), until(ctx, startLimit, "the routers know", func() bool {
					return w.known(reviews, func(s *lane.Service) bool {
						return slices.ContainsFunc(s.Instances, func(in lane.Instance) bool { return in.MetaLane == "" && in.Health == lane.Critical })
					})
				}))
			},
			[]string{"four baseline services are in it, in no lane, a sidecar before each", asNobody, asBob, asQuery, difference,
				next, mix, bounced, untrusted, customers},
			[]string{asAlice, fivePer100, gateway}},
		{"the baseline's reviews pass nothing on",
			func(_ context.Context, w *World) error {
				client := w.shop[reviews].client
				client.Transport = forgetful{client.Transport}
				return nil
			},
			[]string{asBob, asQuery, tagAgain, mix},
			[]string{asNobody, asAlice, next, customers}},
		{"alice has gone",
			func(ctx context.Context, w *World) error { return w.alice.end(ctx) },
			[]string{asAlice, "three local processes are in a lane each", "each response says what happened, in X-Lane-Decision",
				tagAgain, bounced, "a host outside the registry gets no tag"},
			[]string{asNobody, asBob, next, untrusted, customers}},
		{"her lane is killed",
			func(ctx context.Context, w *World) error {
				_, _, err := w.client.Kill(ctx, laneAlice, false, false)
				return errors.Join(err, until(ctx, startLimit, "the routers know", func() bool {
					return w.known(reviews, func(*lane.Service) bool { return true }) &&
						!slices.ContainsFunc(w.routers, func(r *router) bool { return len(r.watcher.Catalog().Switches.KilledLanes) == 0 })
				}))
			},
			[]string{asAlice, difference, mix},
			[]string{asNobody, asBob, fivePer100, customers}},
		{"other rules hold, and somebody calls her process past its guard",
			func(ctx context.Context, w *World) error {
				n, err := w.push(ctx, "trustHeader: true\n"+document(morePercent), "")
				_, e := w.applied(ctx, n)
				_, past := w.people.get(ctx, "http://"+w.alice.local.addr+"/reviews/7")
				return errors.Join(err, e, past)
			},
			[]string{gateway, fivePer100, untrusted, strays},
			[]string{asNobody, asAlice, asBob, next, customers, rolledBack}},
		{"somebody is registered in between",
			func(ctx context.Context, w *World) error {
				return w.api(ctx, http.MethodPut, "/v1/agent/service/register",
					map[string]any{"ID": "search-1", "Name": "search", "Address": "127.0.0.1", "Port": 1}, nil)
			},
			[]string{"the others end too: the registry is as it was before"},
			[]string{"a registry runs on this machine alone"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			emptyTemp(t)
			wrong := map[string]bool{}
			err := in(t, func(ctx context.Context, w *World) error {
				if err := c.spoil(ctx, w); err != nil {
					return err
				}
				var some []step
				for _, s := range theTour() {
					if slices.Contains(c.says, s.says) || slices.Contains(c.fine, s.says) {
						some = append(some, s)
					}
				}
				if len(some) < len(c.says)+len(c.fine) {
					t.Errorf("some of %q are not in the tour", append(c.says, c.fine...))
				}
				r, err := lead(ctx, w, some, quiet)
				if r.OK {
					t.Error("the report says ok")
				}
				for _, s := range r.Steps {
					wrong[s.Text] = wrong[s.Text] || !s.OK
					if !s.OK && s.Detail == "" {
						t.Errorf("%q does not say what was seen", s.Text)
					}
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			for _, s := range c.says {
				if !wrong[s] {
					t.Errorf("not seen to be wrong: %s", s)
				}
			}
			for _, s := range c.fine {
				if wrong[s] {
					t.Errorf("wrong, and should hold: %s", s)
				}
			}
		})
	}
}

func TestWalkGoesOnBehindAWrongStep(t *testing.T) {
	steps := []step{
		{"one", func(context.Context, *World) (string, error) { return is("a", "b") }},
		{"two", func(context.Context, *World) (string, error) { return is("a", "a") }},
		{"three", func(context.Context, *World) (string, error) { return "", errors.New("nobody answers") }},
	}
	var told []string
	r, err := walk(t.Context(), &World{o: options()}, steps, func(s Shown) error {
		told = append(told, s.Detail)
		return nil
	})
	if got, want := strings.Join(told, "|"), "a: expected b|a|nobody answers"; err != nil || got != want || r.OK {
		t.Errorf("ok %v, told %q, want %q; error %v", r.OK, got, want, err)
	}
	if r, err = walk(t.Context(), &World{o: options()}, steps[1:2], quiet); err != nil || !r.OK {
		t.Errorf("a right step: ok %v, %v", r.OK, err)
	}
	closed := errors.New("stdout is closed")
	if _, err = walk(t.Context(), &World{o: options()}, steps, func(Shown) error { return closed }); !errors.Is(err, closed) {
		t.Errorf("who tells has failed: %v", err)
	}
}

// An interrupt at any step takes everything down, and is the error.
func TestInterrupted(t *testing.T) {
	why := errors.New("enough")
	for _, at := range []int{0, 1, 17, 26} {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			emptyTemp(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if at == 0 {
				cancel(why)
			}
			_, err := Tour(ctx, options(), func(s Shown) error {
				if s.N == at {
					cancel(why)
				}
				return nil
			})
			if !errors.Is(err, why) {
				t.Errorf("interrupted at step %d: %v", at, err)
			}
		})
	}
}

// What a viewer sees: every kind of row, within the first round.
func TestShow(t *testing.T) {
	emptyTemp(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	missing := map[string]bool{traffic.RouteLane: true, traffic.RouteBase: true, traffic.RouteFallback: true,
		traffic.RouteGuard: true, traffic.RouteExternal: true, traffic.RouteError: true}
	err := Show(ctx, options(), 100, func(ctx context.Context, w *World) error {
		v := w.Alice()
		st, err := v.Status(ctx)
		if err != nil || st.Lane != laneAlice || len(st.Services) != 1 || st.Services[0].Name != reviews {
			t.Errorf("status %+v, %v", st, err)
		}
		var last uint64
		for n := 0; len(missing) > 0; {
			rows, _, err := v.Next(ctx, last)
			if err != nil {
				return err
			}
			for i := range rows {
				last = rows[i].Seq
				delete(missing, traffic.Route(&rows[i]))
			}
			if n += len(rows); n > 200 {
				t.Errorf("after %d rows still none of %v", n, missing)
				return nil
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	failed := errors.New("no terminal")
	if err := Show(ctx, options(), 100, func(context.Context, *World) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a viewer that fails: %v", err)
	}
}
