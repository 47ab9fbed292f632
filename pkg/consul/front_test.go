package consul_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"lane/pkg/consul/consultest"
)

// front stands before a registry and spoils what passes.
//
//	client --> front --spoil--> registry
type front struct {
	*httptest.Server
	addr string

	mu    sync.Mutex
	spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)
	seen  []string
}

func newFront(t *testing.T, registry string) *front {
	t.Helper()
	f := &front{}
	transport := &http.Transport{Proxy: nil}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry})
	proxy.Transport = transport
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		spoil := f.spoil
		f.seen = append(f.seen, r.Method+" "+r.URL.RequestURI())
		f.mu.Unlock()
		if spoil != nil {
			spoil(w, r, proxy)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	f.addr = f.Listener.Addr().String()
	t.Cleanup(func() {
		f.CloseClientConnections() // watches in flight would hold Close up
		f.Close()
		transport.CloseIdleConnections()
	})
	return f
}

func (f *front) set(spoil func(http.ResponseWriter, *http.Request, http.Handler)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoil = spoil
}

// requests are those that came since the last call.
func (f *front) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	f.seen = nil
	return seen
}

// cut makes every request fail as if the machine were gone, those in flight too.
func (f *front) cut() {
	f.set(func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) })
	f.CloseClientConnections()
}

// breakOff breaks an answer off that has begun: for one that has not, the HTTP
// client may ask again by itself.
func breakOff(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "10")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// header adds a header to what the registry answers on a path.
func header(path, key, value string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		if r.URL.Path == path {
			w.Header().Set(key, value)
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	}
}

// answer answers a path by itself.
func answers(path string, status int, body string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != path {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("X-Consul-Index", "1")
		w.Header().Set("X-Consul-LastContact", "0")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := consultest.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
