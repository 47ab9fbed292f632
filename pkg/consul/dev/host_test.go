package dev_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lane/pkg/consul/consultest"
	"lane/pkg/consul/dev"
)

// A page in the user's browser can make a name of its own resolve to this
// machine; then its requests bear that name.
func TestHostHeader(t *testing.T) {
	r := dev.New(dev.Options{Hosts: []string{"registry.test"}})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8500": 200, "LOCALHOST.": 200, "app.localhost:1": 200,
		"127.0.0.1": 200, "127.0.0.1:8500": 200, "127.8.8.8": 200, "[::1]:8500": 200, "[::1]": 200,
		"registry.test": 200, "Registry.Test:8500": 200,
		"evil.example": 403, "evil.example:8500": 403, "localhost.evil.example": 403, "": 403,
		"127.0.0.1.evil.example": 403, "10.0.0.1": 403, "0.0.0.0:8500": 403, "[::ffff:10.0.0.1]": 403,
	} {
		req := httptest.NewRequest(http.MethodGet, "/v1/status/leader", nil)
		req.Host = host
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}

func TestOwnAddressIsAllowed(t *testing.T) {
	addr := consultest.Embedded(t)
	w := newWorld(t, addr)
	w.http(http.MethodGet, "/v1/status/leader", "").wants(t, 200, `"127.0.0.1:8300"`)
	if got := w.http(http.MethodGet, "/v1/status/leader", "", "Host", "evil.example").code; got != http.StatusForbidden {
		t.Errorf("another name over a socket: %d, want 403", got)
	}
}

// No answer invites another origin.
func TestNoCrossOrigin(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	for _, method := range []string{http.MethodOptions, http.MethodGet} {
		r := w.http(method, "/v1/kv/a", "", "Origin", "http://evil.example", "Access-Control-Request-Method", "PUT")
		for name := range r.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s answers %s", method, name)
			}
		}
	}
}

func TestIndexPage(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	for _, path := range []string{"/", "/ui/", "/ui"} {
		if r := w.http(http.MethodGet, path, ""); r.code != 200 || !strings.Contains(r.body, "/v1/") {
			t.Errorf("%s: %d %q", path, r.code, r.body)
		}
	}
}

func TestBodiesAreBounded(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	big := strings.Repeat("x", 2<<20)
	for path, body := range map[string]string{
		"/v1/agent/service/register": `{"Name":"` + big + `"}`,
		"/v1/session/create":         `{"Name":"` + big + `"}`,
		"/v1/catalog/register":       `{"Node":"` + big + `"}`,
		"/v1/txn":                    `[{"KV":{"Key":"` + big + `"}}]`,
	} {
		if r := w.http(http.MethodPut, path, body); r.code != 413 && r.code != 400 {
			t.Errorf("%s: %d, want a refusal", path, r.code)
		}
	}
}

// What this registry cannot do it says, instead of half doing it.
func TestForeignKindsAreRefused(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	for _, body := range []string{
		`{"Name":"x","Kind":"connect-proxy"}`,
		`{"Name":"x","Connect":{"Native":true}}`,
		`{"Name":"x","Check":{"Args":["rm"],"Interval":"1s"}}`,
		`{"Name":"x","Check":{"GRPC":"h:1","Interval":"1s"}}`,
		`{"Name":"x","Check":{"AliasService":"y"}}`,
	} {
		if r := w.http(http.MethodPut, "/v1/agent/service/register", body); r.code != 400 {
			t.Errorf("%s: %d %s, want 400", body, r.code, r.body)
		}
	}
	w.http(http.MethodGet, "/v1/agent/services", "").wants(t, 200, "{}")
}
