//go:build unix

package cmd

import (
	"fmt"
	"net/http"

	"github.com/rogpeppe/go-internal/testscript"
)

// page NAME lets a server answer as one does that pages call: it lets http://shop.test
// in, refuses a preflight that asks for more than content-type, and has its answers kept
// for an hour.
func cmdPage(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "page NAME")
	s := worldOf(ts).server(ts, args[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.app = func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if r.Method != http.MethodOptions {
			h.Set("Cache-Control", "max-age=3600")
			fmt.Fprintf(w, "%s: a page\n", s.name)
			return
		}
		if asks := r.Header.Get("Access-Control-Request-Headers"); r.Header.Get("Origin") != "http://shop.test" || asks != "" && asks != "content-type" {
			http.Error(w, "invalid CORS request", http.StatusForbidden)
			return
		}
		h.Set("Access-Control-Allow-Origin", "http://shop.test")
		h.Set("Access-Control-Allow-Headers", "content-type")
		w.WriteHeader(http.StatusNoContent)
	}
}
