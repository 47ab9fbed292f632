package relay_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"lane/pkg/consul/consultest"
	"lane/pkg/relay"
)

// between stands between a relay and its registry, and has each registration of an
// instance passed on by register, with how many there were before.
func (w *world) between(register func(n int64, rw http.ResponseWriter, r *http.Request, pass http.Handler)) (addr string, registrations *atomic.Int64) {
	w.t.Helper()
	var n atomic.Int64
	transport := &http.Transport{Proxy: nil}
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: w.addr})
	pass.Transport = transport
	pass.ErrorHandler = func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) }
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/agent/service/register" {
			pass.ServeHTTP(rw, r)
			return
		}
		register(n.Add(1)-1, rw, r, pass)
	}))
	w.t.Cleanup(func() {
		srv.CloseClientConnections() // watches in flight would hold Close up
		srv.Close()
		transport.CloseIdleConnections()
	})
	return srv.Listener.Addr().String(), &n
}

// by has a relay use the registry through an address.
func (w *world) by(addr string) func(*relay.Options) {
	return func(o *relay.Options) { o.Client = open(w.t, addr) }
}

// The former holder of the ID, at another relay, removes it right after this one has
// registered: it is registered once more, and served.
func TestTheFormerHolderRemovesWhatIsRegistered(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		id := "lane:" + w.lane + ":" + w.service + ":box"
		front, n := w.between(func(n int64, rw http.ResponseWriter, r *http.Request, pass http.Handler) {
			pass.ServeHTTP(rw, r)
			if n == 0 {
				w.put("/v1/agent/service/deregister/"+id, "")
			}
		})
		r := w.relay("one", w.by(front))
		l := w.laptop(r.addr, w.token(w.grant(nil)), "box", says(t, "box"))
		at := l.hold(w.claim())["address"]
		w.eventually("passing", func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], at+" passing") })
		if n.Load() != 2 {
			t.Errorf("registered %d times", n.Load())
		}
		l.release("one")
		w.nothing("released")
	})
}

// What the registry does not take is tried once, and told as it was; nothing is left.
func TestARegistrationThatIsNotTaken(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		for name, c := range map[string]struct {
			status int
			body   string
			say    string
		}{
			"denied": {http.StatusForbidden, "Permission denied: token with AccessorID 'x' lacks permission 'service:write'", "service:write"},
			"broken": {http.StatusInternalServerError, "disk full", "disk full"},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, addr)
				front, n := w.between(func(_ int64, rw http.ResponseWriter, _ *http.Request, _ http.Handler) {
					http.Error(rw, c.body, c.status)
				})
				r := w.relay("one", w.by(front))
				l := w.laptop(r.addr, w.token(w.grant(nil)), "box", says(t, "box"))
				_, err := l.try(w.claim())
				if refusal(err) != http.StatusServiceUnavailable || !strings.Contains(err.Error(), c.say) {
					t.Errorf("%v", err)
				}
				if n.Load() != 1 {
					t.Errorf("tried %d times", n.Load())
				}
				w.nothing("refused")
			})
		}
	})
}
