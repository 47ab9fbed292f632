package session_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
)

// A session whose registry's token ends soon says so, and one whose token does not end
// says nothing.
func TestASessionsConsulToken(t *testing.T) {
	for name, answer := range map[string]string{
		"ends": fmt.Sprintf(`{"ExpirationTime":%q}`, time.Now().Add(5*time.Minute).Format(time.RFC3339Nano)),
		"not":  `{}`,
	} {
		w := newWorld(t, consultest.Embedded(t))
		asked := make(chan string, 100)
		w.front.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler, _ int) {
			if r.URL.Path != "/v1/acl/token/self" {
				next.ServeHTTP(rw, r)
				return
			}
			asked <- r.Header.Get("X-Consul-Token")
			fmt.Fprint(rw, answer)
		})
		o := w.options("box")
		o.Registry.Token = "secret"
		r := run(t, o)
		r.up()
		if got := <-asked; got != "secret" {
			t.Errorf("asked with %q", got)
		}
		says := func(st control.Status) bool {
			return slices.ContainsFunc(st.Warnings, func(s string) bool { return strings.HasPrefix(s, "the Consul token ends in 4 m ") })
		}
		if name == "ends" {
			eventually(t, "it is said", func() bool {
				st := r.status()
				return says(st) && slices.ContainsFunc(st.History, func(e control.Event) bool { return strings.HasPrefix(e.Text, "the Consul token ends in ") })
			})
		} else if st := r.status(); says(st) {
			t.Errorf("%q", st.Warnings)
		}
		if err := r.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		if n := len(asked); n != 0 {
			t.Errorf("%s: asked %d times more", name, n)
		}
	}
}
