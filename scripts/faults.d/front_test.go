//go:build unix

package faults

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// front stands before an agent and spoils what passes.
//
//	lane --> front --spoil--> agent
type front struct {
	srv       *httptest.Server
	addr      string
	transport *http.Transport

	mu    sync.Mutex
	agent string // host:port
	spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

func newFront(t *testing.T, agent string) *front {
	t.Helper()
	f := &front{agent: agent, transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 16}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			f.mu.Lock()
			defer f.mu.Unlock()
			p.SetURL(&url.URL{Scheme: "http", Host: f.agent})
		},
		Transport: f.transport,
		// As a load balancer does, and as the agent itself would: no answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	f.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		spoil := f.spoil
		f.mu.Unlock()
		if spoil != nil {
			spoil(w, r, proxy)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	f.srv.Config.ErrorLog = nil
	f.addr = f.srv.Listener.Addr().String()
	t.Cleanup(func() {
		f.srv.CloseClientConnections()
		f.srv.Close()
		f.transport.CloseIdleConnections()
	})
	return f
}

func (f *front) set(spoil func(http.ResponseWriter, *http.Request, http.Handler)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoil = spoil
}

// lead leads to another agent from now on, and ends what waits at this one.
func (f *front) lead(agent string) {
	f.mu.Lock()
	f.agent = agent
	f.mu.Unlock()
	f.srv.CloseClientConnections()
}

// cut breaks every connection off, and every new one.
func (f *front) cut() {
	f.set(func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) })
	f.srv.CloseClientConnections()
}

// status answers everything with a status.
func (f *front) status(code int, text string) {
	f.set(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { http.Error(w, text, code) })
	f.srv.CloseClientConnections()
}
