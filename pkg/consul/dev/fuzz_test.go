package dev_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"lane/pkg/consul/dev"
)

// Whatever a client sends, the registry answers, and goes on working.
func FuzzServeHTTP(f *testing.F) {
	for _, seed := range [][2]string{
		{"/v1/agent/service/register", `{"Name":"x","Checks":[null],"Check":null}`},
		{"/v1/agent/service/register", `null`},
		{"/v1/agent/check/register", `{"Name":"x","TTL":"1s"}`},
		{"/v1/agent/check/pass/", ``},
		{"/v1/catalog/register", `{"Node":"n","Address":"a","Checks":[null],"Service":null}`},
		{"/v1/catalog/register", `{"Node":"n","Address":"a","Service":{"Weights":null}}`},
		{"/v1/catalog/deregister", `{"Node":"dev"}`},
		{"/v1/txn", `[null,{"KV":null},{"KV":{}},{"Node":{"Verb":"get"}}]`},
		{"/v1/session/create", `{"NodeChecks":null,"Checks":[null],"ServiceChecks":[null],"LockDelay":{}}`},
		{"/v1/kv/a?recurse&keys&separator=/", ``},
		{"/v1/kv/a?acquire=x", `v`},
		{"/v1/health/service/x?index=18446744073709551615&wait=9999999h", ``},
		{"/v1/health/service/consul?filter=Checks.Status+matches+%22.%2A%22", ``},
		{"/v1/catalog/services?filter=ServiceMeta.x+in+y", ``},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, target, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") {
			return
		}
		r := dev.New(dev.Options{})
		// A client that has left: no answer may wait.
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodDelete} {
			req := httptest.NewRequestWithContext(gone, method, "http://localhost/", strings.NewReader(body))
			req.URL.Path, req.URL.RawPath, req.URL.RawQuery = u.Path, u.RawPath, u.RawQuery
			r.ServeHTTP(httptest.NewRecorder(), req)
		}
		req := httptest.NewRequest(http.MethodGet, "http://localhost/v1/status/leader", nil)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}
