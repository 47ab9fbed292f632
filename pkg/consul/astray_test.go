package consul_test

import (
	"bytes"
	"context"
	"errors"
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
	"lane/pkg/lane"
)

// astray cuts the first write on a path off, and has it arrive when the removal that
// follows it has been answered.
type astray struct {
	write, removal string // the beginnings of method and path
	done           chan int
	once, removed  sync.Once
	let            chan struct{}
}

func newAstray(f *front, write, removal string) *astray {
	l := &astray{write: write, removal: removal, done: make(chan int, 1), let: make(chan struct{})}
	f.set(l.spoil)
	return l
}

func (l *astray) spoil(w http.ResponseWriter, r *http.Request, next http.Handler) {
	what, cut := r.Method+" "+r.URL.Path, false
	if strings.HasPrefix(what, l.write) {
		l.once.Do(func() {
			cut = true
			body, _ := io.ReadAll(r.Body)
			r := r.Clone(context.WithoutCancel(r.Context()))
			r.Body = io.NopCloser(bytes.NewReader(body))
			go func() {
				<-l.let
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				l.done <- rec.Code
			}()
		})
	}
	if cut {
		panic(http.ErrAbortHandler)
	}
	next.ServeHTTP(w, r)
	if strings.HasPrefix(what, l.removal) {
		l.removed.Do(func() { close(l.let) })
	}
}

func TestARegistrationThatComesAfterItsRemovalIsRemoved(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		for name, leave := range map[string]func(*consul.Hold, context.Context) error{"deregister": (*consul.Hold).Deregister, "withdraw": (*consul.Hold).Withdraw} {
			f := newFront(t, addr)
			c := open(t, f.addr)
			service, l := unique("orders"), unique("dev-alice")
			came := newAstray(f, "PUT /v1/agent/service/register", map[string]string{"deregister": "PUT /v1/agent/service/deregister/", "withdraw": "GET /v1/agent/service/"}[name])
			h := c.NewHold(registration(l, service), consul.HoldOptions{App: true, Late: time.Minute})
			var unsure *consul.UnsureError
			if err := h.Register(deadline(t)); !errors.As(err, &unsure) || !c.Astray() {
				t.Errorf("%s: it was cut off: %v", name, err)
			}
			if err := leave(h, deadline(t)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if code := <-came.done; code != http.StatusOK {
				t.Errorf("%s: it came with %d", name, code)
			}
			f.set(nil)
			if got := of(t, c, lane.Name(l), service); len(got) != 0 {
				t.Errorf("%s: left: %v", name, got)
			}
		}
	})
}

func TestARemovalThatIsSureIsNotLookedAfter(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		h := c.NewHold(registration(unique("dev-alice"), unique("orders")), consul.HoldOptions{App: true})
		if err := h.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		f.requests()
		if err := h.Deregister(deadline(t)); err != nil {
			t.Error(err)
		}
		all := f.requests()
		at := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, "PUT ") })
		last := all[len(all)-1]
		if at != 0 || !strings.HasPrefix(last, "GET ") || c.Astray() {
			t.Errorf("%v, astray %t", all, c.Astray())
		}
	})
}

func TestASessionThatComesAfterTheLookForItIsEnded(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		name := unique("lane dev-alice")
		came := newAstray(f, "PUT /v1/session/create", "GET /v1/session/list")
		if _, err := c.OpenSession(deadline(t), consul.SessionOptions{Name: name, Late: time.Minute}); err == nil {
			t.Error("it was cut off")
		}
		if code := <-came.done; code != http.StatusOK {
			t.Errorf("it came with %d", code)
		}
		f.set(nil)
		if n, err := consul.SessionsNamed(deadline(t), c, name); n != 0 || err != nil {
			t.Errorf("%d sessions are left, %v", n, err)
		}
	})
}

func TestAClaimThatComesAfterItsReleaseIsReleased(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		service, l := unique("orders"), unique("dev-alice")
		s, err := c.OpenSession(deadline(t), consul.SessionOptions{Late: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		came := newAstray(f, "PUT /v1/kv/lane/declared/", "PUT /v1/txn")
		if err := s.Claim(deadline(t), claim(l, service, "alice")); err == nil {
			t.Error("it was cut off")
		}
		if err := s.Release(deadline(t), lane.Name(l), service); err != nil {
			t.Error(err)
		}
		if code := <-came.done; code != http.StatusOK {
			t.Errorf("it came with %d", code)
		}
		f.set(nil)
		if got := claims(t, c, lane.Name(l)); len(got) != 0 {
			t.Errorf("claimed: %+v", got)
		}
		if err := s.Destroy(deadline(t)); err != nil {
			t.Error(err)
		}
	})
}

// A connection that breaks once does not leave things behind.
func TestARemovalIsTriedAgain(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		for name, fail := range map[string]func(http.ResponseWriter){
			"broken off": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
			"502":        func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
			"429":        func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		} {
			f := newFront(t, addr)
			c := open(t, f.addr)
			service, l := unique("orders"), unique("dev-alice")
			s, err := c.OpenSession(deadline(t), consul.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Claim(deadline(t), claim(l, service, "alice")); err != nil {
				t.Fatal(err)
			}
			h := c.NewHold(registration(l, service), consul.HoldOptions{App: true})
			if err := h.Register(deadline(t)); err != nil {
				t.Fatal(err)
			}
			once := func(part string) {
				var first sync.Once
				f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					failed := false
					if strings.Contains(r.URL.Path, part) {
						first.Do(func() { failed = true })
					}
					if failed {
						fail(w)
						return
					}
					next.ServeHTTP(w, r)
				})
			}
			once("/v1/session/destroy/")
			if err := s.Destroy(deadline(t)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			once("/v1/agent/service/deregister/")
			if err := h.Deregister(deadline(t)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			f.set(nil)
			if got := of(t, c, lane.Name(l), service); len(got) != 0 {
				t.Errorf("%s: registered: %v", name, got)
			}
			if got := claims(t, c, lane.Name(l)); len(got) != 0 {
				t.Errorf("%s: claimed: %v", name, got)
			}
		}
	})
}
