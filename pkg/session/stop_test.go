package session_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/session"
)

func TestStopWhileStarting(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	var stopped sync.WaitGroup
	o.At = func(step string) {
		if step != "register" {
			return
		}
		ctl := control.Dial(o.RuntimeDir, os.Getpid())
		if st, err := ctl.Status(context.Background()); err != nil || st.State != control.SessionStarting || st.Services[0].State != control.StateStarting {
			t.Errorf("status %+v, %v", st, err)
		}
		for range 3 {
			stopped.Go(func() {
				if err := ctl.Stop(context.Background(), false); err != nil {
					t.Errorf("Stop = %v", err)
				}
			})
		}
	}
	if err := run(t, o).wait(); err != nil {
		t.Errorf("Run = %v, want nil: somebody asked for it", err)
	}
	stopped.Wait()
	w.empty()
}

func TestAnEndWaitsForRequestsUnlessForced(t *testing.T) {
	for name, force := range map[string]bool{"waits": false, "forced": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			r := run(t, w.options("box"))
			st := r.up()
			answered := make(chan error, 1)
			go func() {
				code, _, err := w.ask(st, "/slow")
				if err == nil && code != 200 {
					err = errors.New("not served")
				}
				answered <- err
			}()
			<-w.local.inside
			r.end(errEnd)
			eventually(t, "marked as draining", func() bool { in := w.instances(); return len(in) == 1 && in[0].Draining == "true" })
			if force {
				if err := r.ctl().Stop(t.Context(), true); err != nil {
					t.Errorf("Stop = %v", err)
				}
			} else {
				close(w.local.slow)
			}
			if err := <-answered; (err != nil) != force {
				t.Errorf("the request under way: %v", err)
			}
			if err := r.wait(); !errors.Is(err, errEnd) {
				t.Error(err)
			}
			w.empty()
		})
	}
}

// A relay that is there has removed what it registered, whoever has no patience.
func TestAForcedEndByARelay(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		t.Run(map[bool]string{false: "there", true: "away"}[away], func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			o := w.options("box")
			var endRelay func()
			o.Relay, endRelay = w.relayed()
			r := run(t, o)
			st := r.up()
			answered := make(chan error, 1)
			go func() {
				_, _, err := w.ask(st, "/slow")
				answered <- err
			}()
			<-w.local.inside
			if away {
				endRelay()
				eventually(t, "away", func() bool {
					st, err := r.ctl().Status(t.Context())
					return err == nil && st.Relay.State != control.RelayOK
				})
			}
			r.end(errEnd)
			err := r.ctl().Stop(t.Context(), true)
			var left *session.FarLeftoverError
			if away != (err != nil) || away != errors.As(r.wait(), &left) {
				t.Errorf("Stop = %v, Run = %v", err, r.wait())
			}
			<-answered
			if !away {
				w.empty()
				return
			}
			w.tidy()
		})
	}
}

func TestTheViewersEndIsTheSessions(t *testing.T) {
	failed := errors.New("the screen is broken")
	for name, want := range map[string]error{"left": nil, "failed": failed} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			o := w.options("box")
			leave := make(chan struct{})
			o.View = func(context.Context, session.View) error { <-leave; return want }
			r := run(t, o)
			st := r.up()
			// Nobody reads, and nobody waits for that.
			if code, _, err := w.ask(st, "/"); code != 200 || err != nil {
				t.Errorf("%d %v", code, err)
			}
			close(leave)
			if err := r.wait(); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("Run = %v, want %v", err, want)
			}
			w.empty()
		})
	}
}

// A viewer that detaches leaves a session that goes on, and says where its log is. One that
// starts cannot be left, and one whose viewer has failed is not.
func TestDetach(t *testing.T) {
	failed := errors.New("no way out of the terminal")
	for name, c := range map[string]struct {
		want error
		goes bool
	}{"left": {nil, true}, "failed": {failed, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			o := w.options("box")
			leave, left := make(chan struct{}), make(chan bool, 2)
			o.View = func(_ context.Context, v session.View) error {
				<-leave
				left <- v.Detach("/state/a.log")
				return c.want
			}
			r := run(t, o)
			st := r.up()
			if st.Log != "" {
				t.Errorf("log %q before", st.Log)
			}
			close(leave)
			if !<-left {
				t.Fatal("one that is up cannot be left")
			}
			if !c.goes {
				if err := r.wait(); !errors.Is(err, failed) {
					t.Errorf("Run = %v", err)
				}
				w.empty()
				return
			}
			if code, _, err := w.ask(st, "/"); code != 200 || err != nil {
				t.Errorf("%d %v", code, err)
			}
			now := r.status()
			if now.Log != "/state/a.log" || now.State != control.SessionUp || len(now.History) == 0 || !strings.Contains(now.History[len(now.History)-1].Text, "detached") {
				t.Errorf("%+v", now)
			}
			if err := r.ctl().Stop(t.Context(), false); err != nil {
				t.Error(err)
			}
			if err := r.wait(); err != nil {
				t.Error(err)
			}
			w.empty()
		})
	}
	t.Run("not up yet", func(t *testing.T) {
		w := newWorld(t, consultest.Embedded(t))
		o := w.options("box")
		looked, goOn := make(chan bool, 1), make(chan struct{})
		o.At = func(step string) {
			if step == "claim" {
				<-goOn
			}
		}
		o.View = func(_ context.Context, v session.View) error {
			looked <- v.Detach("/state/a.log")
			return nil
		}
		r := run(t, o)
		if <-looked {
			t.Error("one that starts can be left")
		}
		close(goOn)
		if err := r.wait(); err != nil {
			t.Error(err)
		}
		w.empty()
	})
}

func TestAViewerThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, consultest.Embedded(t))
	o := session.Quicken(w.options("box"), 10*time.Second, quick) // each step of its start has to fit, on a busy machine too
	leave, left := make(chan struct{}), make(chan struct{})
	o.View = func(context.Context, session.View) error { defer close(left); <-leave; return nil }
	r := run(t, o)
	r.up()
	if err := r.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
	w.empty()
	close(leave)
	<-left
}

func TestPorts(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	o := w.options("box")
	o.Proxy = taken.Addr().String()
	r := run(t, o)
	if st := r.up(); st.Proxy == "http://"+o.Proxy || st.Proxy == "" {
		t.Errorf("the proxy is at %s", st.Proxy)
	}
	if err := r.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
	o.ProxyFixed = true
	away := w.options("box")
	away.Advertise = netip.MustParseAddr("192.0.2.1") // RFC 5737: nobody's
	for name, o := range map[string]session.Options{"fixed": o, "not local": away} {
		w.front.set(nil)
		var port *session.PortError
		var elsewhere *session.NotOursError
		if err := run(t, o).wait(); !errors.As(err, &port) && !(name == "not local" && errors.As(err, &elsewhere)) {
			t.Errorf("%s: Run = %v", name, err)
		}
		if puts := w.front.writes(); len(puts) != 0 {
			t.Errorf("%s: written before: %v", name, puts)
		}
	}
}

func TestTheLocalProcessIsFollowed(t *testing.T) {
	t.Parallel()
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		o := w.options("box")
		o.Services[0].Health = "/healthz"
		r := run(t, o)
		r.up()
		is := func(state, app string) {
			t.Helper()
			eventually(t, state+" and "+app, func() bool {
				in := w.instances()
				return len(in) == 1 && in[0].App == app && r.status().Services[0].State == state
			})
		}
		is(control.StateUp, "passing")
		w.local.set(500)
		is(control.StateLocalClosed, "critical")
		w.local.set(200)
		is(control.StateUp, "passing")
		w.local.close()
		is(control.StateLocalClosed, "critical")
		w.local.open()
		is(control.StateUp, "passing")
		if err := r.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		w.empty()
	})
}

// A local port that is closed is what the user can mend: the registry's silence, which the
// status says of the registry itself, does not hide it. A port that is open is not closed.
func TestAClosedPortIsToldWhileTheRegistryIsAway(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := run(t, w.options("box"))
	r.up()
	is := func(state string) {
		t.Helper()
		eventually(t, state, func() bool { return r.status().Services[0].State == state })
	}
	w.local.close()
	is(control.StateLocalClosed)
	w.front.cut()
	eventually(t, "the registry is away", func() bool { return r.status().Registry.State == "unreachable" })
	is(control.StateLocalClosed)
	w.local.open()
	is(control.StateUnconfirmed)
	w.local.close()
	is(control.StateLocalClosed)
	w.front.set(nil)
	w.local.open()
	is(control.StateUp)
	if err := r.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
}

func TestARegistryThatRestartedEmptyGetsEverythingAgain(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := run(t, w.options("box"))
	r.up()
	w.addr = consultest.Embedded(t)
	w.empty()
	w.front.move(w.addr)
	eventually(t, "instance and claim are back", func() bool { return len(w.instances()) == 1 && len(w.claims()) == 1 })
	eventually(t, "the session is up", func() bool { return r.status().Services[0].State == control.StateUp })
	if err := r.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
	w.empty()
}
