package consul_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// cutOff gives the caller up while the registry has done what was asked, and
// its answer is still under way.
func cutOff(f *front, path string, giveUp func()) {
	f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != path || r.Method != http.MethodPut {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		giveUp()
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

func TestAStartThatIsInterruptedLeavesNothingBehind(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		service, l := unique("orders"), unique("dev-alice")

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cutOff(f, "/v1/session/create", cancel)
		s, err := c.OpenSession(ctx, consul.SessionOptions{})
		if err != nil {
			t.Fatalf("it was opened, and nobody would know its ID: %v", err)
		}

		ctx, cancel = context.WithCancel(context.Background())
		defer cancel()
		cutOff(f, "/v1/kv/lane/declared/"+l+"/"+service, cancel)
		if err := s.Claim(ctx, claim(l, service, "alice")); err != nil {
			t.Error(err)
		}
		if got := claims(t, c, lane.Name(l)); len(got) != 1 {
			t.Errorf("%+v", got)
		}

		ctx, cancel = context.WithCancel(context.Background())
		defer cancel()
		cutOff(f, "/v1/agent/service/register", cancel)
		h := c.NewHold(registration(l, service), consul.HoldOptions{App: true})
		if err := h.Register(ctx); err == nil {
			t.Error("it was given up")
		}

		f.set(nil)
		if err := h.Deregister(deadline(t)); err != nil {
			t.Error(err)
		}
		if err := s.Destroy(deadline(t)); err != nil {
			t.Error(err)
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 0 {
			t.Errorf("registered: %+v", got)
		}
		if got := claims(t, c, lane.Name(l)); len(got) != 0 {
			t.Errorf("claimed: %+v", got)
		}
	})
}
