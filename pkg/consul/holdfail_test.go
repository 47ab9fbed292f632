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
)

func TestARegistrationThatTheCatalogDoesNotShowIsAnError(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		service := unique("orders")
		path := "/v1/health/service/" + service
		h := c.NewHold(registration("dev-alice", service), consul.HoldOptions{App: true})
		ctx := newLate()
		f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Path == path && r.URL.Query().Has("index") {
				ctx.pass()
				<-r.Context().Done() // a blocking query with nothing new
				return
			}
			answers(path, 200, `[]`)(w, r, next)
		})
		var hidden *consul.NotShownError
		if err := h.Register(ctx); !errors.As(err, &hidden) || hidden.Seen != "nothing" {
			t.Errorf("%v", err)
		}
		if ok, err := h.State(); ok || !errors.As(err, &hidden) {
			t.Errorf("state %v %v", ok, err)
		}
		if err := h.Deregister(deadline(t)); err != nil {
			t.Errorf("after a failed start: %v", err)
		}
		if got := of(t, open(t, addr), "dev-alice", service); len(got) != 0 {
			t.Errorf("left behind: %+v", got)
		}
	})
}

func TestAReadBackThatIsCutByTheACLSaysSo(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	c := open(t, f.addr)
	service := unique("orders")
	path := "/v1/health/service/" + service
	ctx := newLate()
	f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == path && r.URL.Query().Has("index") {
			ctx.pass()
		}
		w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
		answers(path, 200, `[]`)(w, r, next)
	})
	h := c.NewHold(registration("dev-alice", service), consul.HoldOptions{App: true})
	var denied *consul.DeniedError
	if err := h.Register(ctx); !errors.As(err, &denied) || !strings.Contains(denied.Need, "node:read") {
		t.Errorf("%v", err)
	}
	f.set(nil)
	if err := h.Deregister(deadline(t)); err != nil {
		t.Error(err)
	}
}

func TestRefusalsNameTheRuleThatIsMissing(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	c := open(t, f.addr)
	service := unique("orders")
	alice := session(t, c)
	h := held(t, c, service, consul.HoldOptions{})
	f.set(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { http.Error(w, "Permission denied", 403) })
	defer f.set(nil)
	ctx := deadline(t)
	_, claims := c.Claims(ctx, "")
	_, open := c.OpenSession(ctx, consul.SessionOptions{})
	_, lanes := c.LaneInstances(ctx, "")
	_, node := c.NodeName(ctx)
	for want, err := range map[string]error{
		`service:write on "` + service + `"`: h.Drain(ctx),
		"key:write":                          alice.Claim(ctx, claim("dev-alice", service, "alice")),
		"key:read":                           claims,
		"session:write":                      open,
		"node:read":                          lanes,
		"agent:read":                         node,
	} {
		var denied *consul.DeniedError
		if !errors.As(err, &denied) || !strings.Contains(denied.Need, want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestDeregisterNamesWhatIsLeft(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		service := unique("orders")
		path := "/v1/health/service/" + service
		r := registration("dev-alice", service)
		var left *consul.LeftoverError
		check := func(what string, err error) {
			t.Helper()
			if !errors.As(err, &left) || left.ID != r.ID || left.Within != 105*time.Second ||
				!strings.Contains(err.Error(), r.ID) || !strings.Contains(err.Error(), "1m45s") {
				t.Errorf("%s: %v", what, err)
			}
		}
		h := c.NewHold(r, consul.HoldOptions{App: true})
		if err := h.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		short := newLate()
		f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Path == path && r.URL.Query().Has("index") {
				short.pass()
				<-r.Context().Done()
				return
			}
			answers(path, 200, `[{"Node":{},"Service":{}}]`)(w, r, next)
		})
		check("still shown", h.Deregister(short))

		f.cut()
		err := h.Deregister(deadline(t))
		check("unreachable", err)
		var away *consul.UnreachableError
		if !errors.As(err, &away) {
			t.Errorf("%v", err)
		}
		f.set(nil)
		if err := h.Deregister(deadline(t)); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

func TestOnlyALanesInstancesAreRemoved(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("orders")
		consul.RegisterBaseline(t, c, service, service+"-1", "127.0.0.1", 9001, nil)
		for _, id := range []string{service + "-1", "", "lane:x", "lane::a:b"} {
			var invalid *consul.ValidationError
			if err := c.Deregister(deadline(t), id); !errors.As(err, &invalid) {
				t.Errorf("%q: %v", id, err)
			}
		}
		if err := c.Deregister(deadline(t), "lane:dev-alice:"+service+":box"); err != nil {
			t.Errorf("unknown is gone: %v", err)
		}
		w := watcher(t, c, consul.WatchOptions{})
		if s := need(t, w, service); len(s.Instances) != 1 {
			t.Errorf("the baseline was touched: %+v", s.Instances)
		}
		if got, err := c.LaneInstances(deadline(t), ""); err != nil || len(got[service]) != 0 {
			t.Errorf("the baseline is no lane: %v %v", got[service], err)
		}
	})
}

func TestBeatsThatFailAreToldAndRecover(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		service := unique("orders")
		h := held(t, c, service, consul.HoldOptions{App: true, Beat: 20 * time.Millisecond})
		background(t, h.Run)
		f.cut()
		eventually(t, "not confirmed", func() bool {
			ok, err := h.State()
			var away *consul.UnreachableError
			return !ok && errors.As(err, &away)
		})
		f.set(nil)
		eventually(t, "confirmed again", func() bool { ok, err := h.State(); return ok && err == nil })
	})
}

func TestBeatsWithTheSameOutputWakeNobody(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("orders")
		h := held(t, c, service, consul.HoldOptions{App: true, AppNote: "port 8080 accepts", Beat: 5 * time.Millisecond, ReadBack: time.Hour})
		w := watcher(t, c, consul.WatchOptions{})
		need(t, w, service)
		before := consul.IndexOf(t, c, service)
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		if err := h.Run(ctx); err != nil {
			t.Error(err)
		}
		if after := consul.IndexOf(t, c, service); after != before {
			t.Errorf("the index moved from %d to %d", before, after)
		}
		// The twin: a change does move it.
		h.SetApp(false, "port 8080 refuses")
		background(t, h.Run)
		eventually(t, "the change is in the catalog", func() bool { return consul.IndexOf(t, c, service) != before })
	})
}
