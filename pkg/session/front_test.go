package session_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// front stands before a registry and spoils what passes.
//
//	session --> front --spoil--> registry
type front struct {
	addr string
	srv  *httptest.Server

	mu    sync.Mutex
	next  string // the registry's host:port
	spoil spoiler
	puts  []string
}

// spoiler serves a request in place of next; put is its number among the
// writes, 0 for a read.
type spoiler func(w http.ResponseWriter, r *http.Request, next http.Handler, put int)

func newFront(t *testing.T, registry string) *front {
	t.Helper()
	f := &front{next: registry}
	transport := &http.Transport{Proxy: nil}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			f.mu.Lock()
			defer f.mu.Unlock()
			r.SetURL(&url.URL{Scheme: "http", Host: f.next})
		},
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	f.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		spoil, put := f.spoil, 0
		if r.Method == http.MethodPut {
			f.puts = append(f.puts, r.URL.Path)
			put = len(f.puts)
		}
		f.mu.Unlock()
		if spoil == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		spoil(w, r, proxy, put)
	}))
	f.addr = f.srv.Listener.Addr().String()
	t.Cleanup(func() {
		f.srv.CloseClientConnections() // watches in flight would hold Close up
		f.srv.Close()
		transport.CloseIdleConnections()
	})
	return f
}

// set spoils from now on, and counts the writes anew.
func (f *front) set(s spoiler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoil, f.puts = s, nil
}

// move puts another registry behind the front.
func (f *front) move(registry string) {
	f.mu.Lock()
	f.next = registry
	f.mu.Unlock()
	f.srv.CloseClientConnections()
}

// cut makes the registry unreachable, for what is in flight too.
func (f *front) cut() {
	f.set(away)
	f.srv.CloseClientConnections()
}

// writes are those since the last set.
func (f *front) writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.puts...)
}

func away(http.ResponseWriter, *http.Request, http.Handler, int) { panic(http.ErrAbortHandler) }

func hang(_ http.ResponseWriter, r *http.Request, _ http.Handler, _ int) {
	_, _ = io.Copy(io.Discard, r.Body) // a server sees its client's end behind the body only
	<-r.Context().Done()
}

// refuse answers without asking the registry.
func refuse(w http.ResponseWriter, _ *http.Request, _ http.Handler, _ int) {
	http.Error(w, "no", http.StatusInternalServerError)
}

// unheard lets the registry do it, and breaks the answer off.
func unheard(w http.ResponseWriter, r *http.Request, next http.Handler, _ int) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// only spoils the nth write alone; from spoils it and all that follows.
func only(n int, s spoiler) spoiler {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler, put int) {
		if put == n {
			s(w, r, next, put)
			return
		}
		next.ServeHTTP(w, r)
	}
}

func from(n int, s spoiler) spoiler {
	var mu sync.Mutex
	begun := false
	return func(w http.ResponseWriter, r *http.Request, next http.Handler, put int) {
		mu.Lock()
		begun = begun || put == n
		now := begun
		mu.Unlock()
		if now {
			s(w, r, next, put)
			return
		}
		next.ServeHTTP(w, r)
	}
}
