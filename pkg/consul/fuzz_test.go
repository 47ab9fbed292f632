package consul_test

import (
	"strings"
	"testing"

	"lane/pkg/consul"
)

func FuzzClaim(f *testing.F) {
	f.Add("lane/declared/dev-alice/orders", `{"owner":"alice","registered":"lane-dev-alice-orders"}`)
	f.Add("lane/declared/dev-alice/orders", `{"registered":"inventory"}`)
	f.Add("lane/declared/a/b/c", `null`)
	f.Add("lane/declared//", `[`)
	f.Fuzz(func(t *testing.T, key, value string) {
		cl, ok := consul.DecodeClaim(key, value)
		if !ok {
			return
		}
		if cl.Registered != cl.Service && cl.Registered != consul.IsolatedName(cl.Lane, cl.Service) {
			t.Errorf("a claim brings in a foreign name: %+v", cl)
		}
		if cl.Lane == "" || cl.Service == "" || strings.ContainsAny(cl.Service, "/?#% ") {
			t.Errorf("%+v", cl)
		}
		again, ok := consul.DecodeClaim(consul.EncodeClaim(cl))
		if !ok || again != cl {
			t.Errorf("round trip: %+v, %+v", cl, again)
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"127.0.0.1:8500", "https://a/b", "unix:///x", "http://u:p@h:1", "[::1]:1", "::1", "a:1#x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := consul.Open(consul.Config{Address: s, Getenv: env()})
		if err != nil {
			return
		}
		again, err := consul.Open(consul.Config{Address: c.Address(), Getenv: env()})
		if err != nil || again.Address() != c.Address() {
			t.Errorf("%q is %q, which is %v %v", s, c.Address(), again, err)
		}
	})
}
