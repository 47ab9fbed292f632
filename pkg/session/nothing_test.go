package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/session"
)

func TestAnEndLeavesNothing(t *testing.T) {
	for name, change := range map[string]func(w *world, o *session.Options){
		"shared":   func(*world, *session.Options) {},
		"isolated": func(_ *world, o *session.Options) { o.Mode = session.ModeIsolated },
		"two services": func(w *world, o *session.Options) {
			o.Services = append(o.Services, session.Service{Name: w.service("reviews"), Local: []string{w.local.addr}})
		},
		"no service": func(_ *world, o *session.Options) { o.Services = nil },
	} {
		t.Run(name, func(t *testing.T) {
			consultest.Each(t, func(t *testing.T, addr string) {
				w := newWorld(t, addr)
				o := w.options("box")
				change(w, &o)
				r := run(t, o)
				st := r.up()
				n := len(o.Services)
				in := w.instances()
				if len(in) != n || len(w.claims()) != n || len(w.sessions()) != min(n, 1) || len(st.Services) != n || st.State != control.SessionUp {
					t.Errorf("instances %v, claims %v, sessions %v, status %+v", in, w.claims(), w.sessions(), st)
				}
				for i, s := range st.Services {
					if s.State != control.StateUp || s.Mode != o.Mode || !slices.ContainsFunc(in, func(in instance) bool {
						return in.ID == s.ID && in.Name == s.Registered && strings.HasSuffix(s.Guard, ":"+in.Port)
					}) {
						t.Errorf("service %d: %+v, instances %v", i, s, in)
					}
				}
				if n > 0 {
					if code, body, err := w.ask(st, "/"); code != 200 || body != "local" || err != nil {
						t.Errorf("through the guard: %d %q %v", code, body, err)
					}
				}
				if err := r.stop(); !errors.Is(err, errEnd) {
					t.Errorf("the error is %v, want the cause", err)
				}
				w.empty()
				free(t, st.Proxy)
				for _, s := range st.Services {
					free(t, s.Guard)
				}
				if found, silent, err := control.Sessions(t.Context(), o.RuntimeDir); err != nil || len(found) != 0 || silent != nil {
					t.Errorf("still found: %v, %v", found, err)
				}
			})
		})
	}
}

func TestAnInterruptedStartLeavesNothing(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		var steps []string
		o := w.options("box")
		o.Services = append(o.Services, session.Service{Name: w.service("reviews"), Local: []string{w.local.addr}})
		o.At = func(step string) { steps = append(steps, step) }
		w.front.set(nil)
		r := run(t, o)
		r.up()
		writes := w.front.writes()
		if err := r.stop(); !errors.Is(err, errEnd) {
			t.Fatal(err)
		}
		if len(steps) < 8 || len(writes) < 9 {
			t.Fatalf("steps %v, writes %v", steps, writes)
		}
		w.empty()

		interrupted := func(name string, prepare func(o *session.Options, interrupt func())) {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, addr)
				o := w.options("box")
				o.Services = append(o.Services, session.Service{Name: w.service("reviews"), Local: []string{w.local.addr}})
				ctx, interrupt := context.WithCancelCause(t.Context())
				o.Ready = func(control.Status) {}
				var view session.View
				viewed := make(chan struct{})
				o.View = func(ctx context.Context, v session.View) error {
					view = v
					close(viewed)
					<-ctx.Done()
					return ctx.Err()
				}
				var open []string
				w.front.set(nil)
				prepare(&o, func() { interrupt(errEnd) })
				at := o.At
				o.At = func(step string) {
					<-viewed
					st, _ := view.Status(ctx)
					if st.Proxy != "" {
						open = append(open, st.Proxy)
					}
					for _, s := range st.Services {
						open = append(open, s.Guard)
					}
					if at != nil {
						at(step)
					}
				}
				w.t = t
				if err := session.Run(ctx, o); !errors.Is(err, errEnd) || errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v, want the cause alone", err)
				}
				w.empty()
				free(t, slices.Compact(slices.Sorted(slices.Values(open)))...)
			})
		}
		for i, step := range steps {
			interrupted(fmt.Sprintf("at %d %s", i, step), func(o *session.Options, interrupt func()) {
				n := 0
				o.At = func(string) {
					if n++; n == i+1 {
						interrupt()
					}
				}
			})
		}
	})
}

// The registry does what it is asked to, and the user interrupts meanwhile.
func TestAnInterruptionDuringAWriteLeavesNothing(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		for n := 1; n <= 7; n++ {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				w := newWorld(t, addr)
				ctx, interrupt := context.WithCancelCause(t.Context())
				w.front.set(only(n, func(rw http.ResponseWriter, r *http.Request, next http.Handler, _ int) {
					interrupt(errEnd)
					next.ServeHTTP(rw, r)
				}))
				o := w.options("box")
				if err := session.Run(ctx, o); !errors.Is(err, errEnd) {
					t.Errorf("the error is %v, want the cause", err)
				}
				w.empty()
			})
		}
	})
}

// starting are the writes of a start with one service: session, claim,
// registration, and two checks.
const starting = 5

func TestAFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	consultest.Each(t, func(t *testing.T, addr string) {
		for name, spoil := range map[string]spoiler{"refused": refuse, "unheard": unheard} {
			for n := 1; n <= starting; n++ {
				t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
					w := newWorld(t, addr)
					o := w.options("box")
					o.ClaimTTL = 10 * time.Minute // its renewals are writes too
					w.front.set(only(n, spoil))
					err := run(t, o).wait()
					var left *session.LeftBehindError
					if err == nil || errors.As(err, &left) {
						t.Errorf("Run = %v", err)
					}
					w.empty()
				})
			}
		}
	})
}

// belated cuts the nth write off, and has it arrive when the first removal that follows,
// or the look for what there is to remove, has been answered.
func belated(n int, came chan<- int) spoiler {
	let := make(chan struct{})
	var removed sync.Once
	return func(rw http.ResponseWriter, r *http.Request, next http.Handler, put int) {
		if put == n {
			body, _ := io.ReadAll(r.Body)
			r := r.Clone(context.WithoutCancel(r.Context()))
			r.Body = io.NopCloser(bytes.NewReader(body))
			go func() {
				<-let
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				came <- rec.Code
			}()
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(rw, r)
		for _, removal := range []string{"/v1/session/list", "/v1/session/destroy/", "/v1/agent/service/deregister/"} {
			if strings.HasPrefix(r.URL.Path, removal) && !(n == 3 && removal == "/v1/session/destroy/") {
				removed.Do(func() { close(let) })
			}
		}
	}
}

// What was cut off on its way to the registry arrives after its removal.
func TestABelatedWriteLeavesNothing(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		for n := 1; n <= starting; n++ {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, addr)
				came := make(chan int, 1)
				w.front.set(belated(n, came))
				o := session.Quicken(w.options("box"), 0, consul.HoldOptions{Late: time.Minute})
				o.ClaimTTL = 10 * time.Minute // its renewals are writes too
				var left *session.LeftBehindError
				if err := run(t, o).wait(); err == nil || errors.As(err, &left) {
					t.Errorf("Run = %v", err)
				}
				t.Logf("it came, and was answered with %d", <-came)
				eventually(t, "nothing is left", func() bool { return len(w.instances())+len(w.claims())+len(w.sessions()) == 0 })
			})
		}
	})
}

func TestWhatIsLeftIsNamed(t *testing.T) {
	t.Parallel()
	consultest.Each(t, func(t *testing.T, addr string) {
		for n := 1; n <= starting+1; n++ {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				w := newWorld(t, addr)
				o := w.options("box")
				if n <= starting {
					w.front.set(from(n, away))
				}
				r := run(t, o)
				if n > starting { // the registry goes while the session is up
					r.up()
					w.front.cut()
					r.end(errEnd)
				}
				err := r.wait()
				if err == nil {
					t.Fatal("no error")
				}
				var left *session.LeftBehindError
				names := errors.As(err, &left)
				for _, in := range w.instances() {
					if !names || !strings.Contains(left.Error(), in.ID) {
						t.Errorf("%s is left, and not named: %v", in.ID, err)
					}
				}
				if len(w.claims()) > 0 && (!names || !strings.Contains(left.Error(), "the claims of lane "+string(w.lane))) {
					t.Errorf("%v are left, and not named: %v", w.claims(), err)
				}
				if names && !strings.Contains(left.Error(), "within") {
					t.Errorf("when it expires is not said: %v", left)
				}
				if n == 1 && names {
					t.Errorf("nothing was written, and yet %v", left)
				}
				w.front.set(nil)
				w.tidy()
			})
		}
	})
}

// A registry that takes connections and answers nothing.
func TestARegistryThatHangsHoldsNobodyUp(t *testing.T) {
	addr := consultest.Embedded(t)
	for _, n := range []int{0, 1, 2, 3, 5, starting + 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, addr)
			step := 300 * time.Millisecond
			if n > starting {
				step = 3 * time.Second // each step of its start has to fit
			}
			o := session.Quicken(w.options("box"), step, quick)
			if n <= starting {
				w.front.set(from(n, hang))
			}
			r := run(t, o)
			if n > starting {
				r.up()
				w.front.set(hang)
				r.end(errEnd)
			}
			var unreachable *consul.UnreachableError
			if err := r.wait(); !errors.As(err, &unreachable) {
				t.Errorf("Run = %v", err)
			}
			w.front.set(nil)
			w.tidy()
		})
	}
}

func TestNoRegistryIsSaid(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	w.front.cut()
	var unreachable *consul.UnreachableError
	if err := session.Run(t.Context(), w.options("box")); !errors.As(err, &unreachable) {
		t.Errorf("Run = %v", err)
	}
	w.empty()
}

// The guardian of a session that died removes the ID just as the next session has
// registered it: that one registers once more, and is up. What the registry does not
// take is tried once.
func TestRemovedWhileItRegisters(t *testing.T) {
	t.Parallel()
	consultest.Each(t, func(t *testing.T, addr string) {
		registrations := func(w *world) (n int) {
			for _, path := range w.front.writes() {
				if path == "/v1/agent/service/register" {
					n++
				}
			}
			return n
		}
		w := newWorld(t, addr)
		o := w.options("box")
		var once sync.Once
		w.front.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler, put int) {
			next.ServeHTTP(rw, r)
			if r.URL.Path == "/v1/agent/service/register" {
				once.Do(func() {
					w.put("/v1/agent/service/deregister/lane:"+string(w.lane)+":"+o.Services[0].Name+":box", nil)
				})
			}
		})
		r := run(t, o)
		st := r.up()
		if in := w.instances(); len(in) != 1 || st.Services[0].State != control.StateUp || registrations(w) < 2 {
			t.Errorf("instances %v, %+v, registered %d times", in, st.Services, registrations(w))
		}
		if err := r.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		w.empty()

		w.front.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler, put int) {
			if r.URL.Path == "/v1/agent/service/register" {
				refuse(rw, r, next, put)
				return
			}
			next.ServeHTTP(rw, r)
		})
		if err := run(t, w.options("box")).wait(); err == nil {
			t.Error("a registration that is refused is taken for made")
		}
		if n := registrations(w); n != 1 {
			t.Errorf("tried %d times", n)
		}
		w.front.set(nil)
		w.empty()
	})
}
