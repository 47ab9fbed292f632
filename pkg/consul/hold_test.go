package consul_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

func held(t *testing.T, c *consul.Client, service string, o consul.HoldOptions) *consul.Hold {
	t.Helper()
	h := c.NewHold(registration("dev-alice", service), o)
	t.Cleanup(func() {
		if err := h.Deregister(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := h.Register(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return h
}

func of(t *testing.T, c *consul.Client, l lane.Name, service string) []lane.Instance {
	t.Helper()
	all, err := c.LaneInstances(deadline(t), l)
	if err != nil {
		t.Fatal(err)
	}
	return all[service]
}

func TestRegisterReturnsWhenTheCatalogShowsBothChecks(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		for _, app := range []bool{true, false} {
			service := unique("orders")
			begin := time.Now()
			h := held(t, c, service, consul.HoldOptions{App: app, AppNote: "as told"})
			t.Logf("registered in %v", time.Since(begin))
			want := lane.Passing
			if !app {
				want = lane.Critical
			}
			got := of(t, c, "dev-alice", service)
			if len(got) != 1 || got[0].Health != want || (got[0].HealthNote == "") != app {
				t.Fatalf("app %v: %+v", app, got)
			}
			in := got[0]
			if in.ID != "lane:dev-alice:"+service+":box" || in.Addr != "127.0.0.1:8080" || in.MetaLane != "dev-alice" ||
				!in.Local || in.Draining || in.Owner != "alice" || in.Version != "v2" || in.Weight != 1 || in.Registered != service {
				t.Errorf("%+v", in)
			}
			if ok, err := h.State(); !ok || err != nil {
				t.Errorf("state %v %v", ok, err)
			}
			begin = time.Now()
			if err := h.Deregister(deadline(t)); err != nil {
				t.Fatal(err)
			}
			t.Logf("deregistered in %v", time.Since(begin))
			if got := of(t, c, "dev-alice", service); len(got) != 0 {
				t.Errorf("still there: %+v", got)
			}
			if err := h.Deregister(deadline(t)); err != nil {
				t.Errorf("twice: %v", err)
			}
		}
	})
}

func TestApplicationStateIsPushedAtOnce(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("orders")
		h := held(t, c, service, consul.HoldOptions{App: true, Beat: time.Hour})
		background(t, h.Run)
		for _, ok := range []bool{false, true, false} {
			h.SetApp(ok, "port 8080")
			want := lane.Passing
			if !ok {
				want = lane.Critical
			}
			eventually(t, "the catalog shows it, long before a beat", func() bool {
				got := of(t, c, "dev-alice", service)
				return len(got) == 1 && got[0].Health == want
			})
		}
	})
}

func TestABeatThatIsUnknownRegistersAgain(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("orders")
		h := held(t, c, service, consul.HoldOptions{App: true, Beat: 50 * time.Millisecond})
		background(t, h.Run)
		if err := c.Deregister(deadline(t), registration("dev-alice", service).ID); err != nil {
			var left *consul.LeftoverError // it can be back before the removal was seen
			if !errors.As(err, &left) {
				t.Fatal(err)
			}
		}
		eventually(t, "it is back", func() bool {
			got := of(t, c, "dev-alice", service)
			ok, _ := h.State()
			return ok && len(got) == 1 && got[0].Health == lane.Passing
		})
		// The twin: one that was deregistered on purpose stays away.
		if err := h.Deregister(deadline(t)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		for ctx.Err() == nil {
			if got := of(t, c, "dev-alice", service); len(got) != 0 {
				t.Fatal("registered again after Deregister")
			}
		}
		if err := h.Register(deadline(t)); err == nil {
			t.Error("Register after Deregister must fail")
		}
	})
}

func TestDrainKeepsTheChecks(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		for _, app := range []bool{true, false} {
			service := unique("orders")
			h := held(t, c, service, consul.HoldOptions{App: app})
			if err := h.Drain(deadline(t)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "draining is shown", func() bool {
				got := of(t, c, "dev-alice", service)
				return len(got) == 1 && got[0].Draining && (got[0].Health == lane.Passing) == app
			})
		}
	})
}

func TestNothingIsRegisteredThatIsNotValid(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("orders")
		for field, change := range map[string]func(*consul.Registration){
			"lane":    func(r *consul.Registration) { r.Lane = "" },
			"service": func(r *consul.Registration) { r.Service = "Orders" },
			"address": func(r *consul.Registration) { r.Address = "relay:80" },
			"port":    func(r *consul.Registration) { r.Port = 70000 },
		} {
			r := registration("dev-alice", service)
			change(&r)
			h := c.NewHold(r, consul.HoldOptions{App: true})
			var invalid *consul.ValidationError
			if err := h.Register(deadline(t)); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("%s: %v", field, err)
			}
			if err := h.Deregister(deadline(t)); err != nil {
				t.Errorf("%s: nothing to deregister: %v", field, err)
			}
		}
		if got := of(t, c, "", service); len(got) != 0 {
			t.Errorf("registered: %+v", got)
		}
	})
}

// Beats say nothing of the address: they go on for whatever stands under the ID. It
// is set right all the same, or callers would go astray for as long as the session
// lives.
func TestAnotherAddressUnderTheOwnIDIsSetRight(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("orders")
		h := held(t, c, service, consul.HoldOptions{App: true, Beat: 50 * time.Millisecond, ReadBack: time.Millisecond})
		background(t, h.Run)
		other := registration("dev-alice", service)
		other.Port++
		if err := c.NewHold(other, consul.HoldOptions{App: true}).Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the own address stands there again", func() bool {
			in := of(t, c, "dev-alice", service)
			return len(in) == 1 && in[0].Addr == "127.0.0.1:8080"
		})
		eventually(t, "it is confirmed again", func() bool { ok, err := h.State(); return ok && err == nil })
	})
}

// Routers hear of an instance once, as it is: not first of a sick one.
func TestARegistrationIsWellFromItsFirstMoment(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		for _, app := range []bool{true, false} {
			f := newFront(t, addr)
			service := unique("orders")
			beats := make(chan struct{})
			f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.HasPrefix(r.URL.Path, "/v1/agent/check/update/") {
					<-beats
				}
				next.ServeHTTP(w, r)
			})
			h := open(t, f.addr).NewHold(registration("dev-alice", service), consul.HoldOptions{App: app, AppNote: "as told"})
			registered := make(chan error, 1)
			go func() { registered <- h.Register(deadline(t)) }()
			direct := open(t, addr)
			eventually(t, "registered", func() bool { return len(of(t, direct, "dev-alice", service)) == 1 })
			if got := of(t, direct, "dev-alice", service)[0].Health; (got == lane.Passing) != app {
				t.Errorf("before its first beat, with a process that is well: %v: %v", app, got)
			}
			close(beats)
			if err := <-registered; err != nil {
				t.Error(err)
			}
			if err := h.Deregister(deadline(t)); err != nil {
				t.Error(err)
			}
		}
	})
}
