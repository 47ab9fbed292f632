package consul_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

func with(t *testing.T, addr, token string) *consul.Client {
	t.Helper()
	c, err := consul.Open(consul.Config{Address: addr, Token: token, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// What a registry says of a token, and what nobody knows of it.
func TestWhenATokenEnds(t *testing.T) {
	for name, c := range map[string]struct {
		token, answer string
		status        int
		asked         int
		want          time.Time
		fails         bool
	}{
		"it ends":                   {"secret", `{"AccessorID":"a","ExpirationTime":"2026-03-02T14:11:27.5Z"}`, 200, 1, time.Date(2026, 3, 2, 14, 11, 27, 5e8, time.UTC), false},
		"it does not":               {"secret", `{"AccessorID":"a"}`, 200, 1, time.Time{}, false},
		"no token":                  {"", `{"ExpirationTime":"2026-03-02T14:11:27.5Z"}`, 200, 0, time.Time{}, false},
		"no access control":         {"secret", "ACL support disabled", 401, 1, time.Time{}, false},
		"it may not be read":        {"secret", "Permission denied", 403, 1, time.Time{}, false},
		"it is gone":                {"secret", "ACL not found", 403, 1, time.Time{}, false},
		"a registry without tokens": {"secret", "404 page not found", 404, 1, time.Time{}, false},
		"no leader":                 {"secret", "No cluster leader", 500, 1, time.Time{}, true},
	} {
		asked := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/acl/token/self" || r.Header.Get("X-Consul-Token") != c.token {
				t.Errorf("%s: %s with %q", name, r.URL.Path, r.Header.Get("X-Consul-Token"))
			}
			asked++
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.answer)
		}))
		got, err := with(t, strings.TrimPrefix(srv.URL, "http://"), c.token).TokenEnds(deadline(t))
		if !got.Equal(c.want) || (err != nil) != c.fails || asked != c.asked {
			t.Errorf("%s: %v, %v, asked %d times", name, got, err, asked)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: a token is in %v", name, err)
		}
		srv.Close()
	}
	consultest.Each(t, func(t *testing.T, addr string) { // without access control
		if got, err := with(t, addr, "2f9c1a34-6b0e-4a57-9d5e-000000000009").TokenEnds(deadline(t)); !got.IsZero() || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// The same of a real registry's own tokens.
func TestWhenARealTokenEnds(t *testing.T) {
	binary := consultest.Needed(t) // the embedded registry has no access control
	const root = "2f9c1a34-6b0e-4a57-9d5e-000000000001"
	addr := consultest.StartACL(t, binary, root)
	by := with(t, addr, root)
	for life, known := range map[time.Duration]bool{5 * time.Minute: true, 0: false} {
		from := time.Now()
		got, err := with(t, addr, consul.NewTokenFor(t, by, life)).TokenEnds(deadline(t))
		if left := got.Sub(from); err != nil || got.IsZero() == known || known && (left < life-time.Second || left > life+time.Minute) {
			t.Errorf("a token for %v ends at %v, %v", life, got, err)
		}
	}
	for _, token := range []string{root, "", "2f9c1a34-6b0e-4a57-9d5e-000000000009"} {
		if got, err := with(t, addr, token).TokenEnds(deadline(t)); !got.IsZero() || err != nil {
			t.Errorf("%q: %v, %v", token, got, err)
		}
	}
}
