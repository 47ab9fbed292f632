//go:build unix

package cmd

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// What a gateway says of the traces that begin there.
func TestWhetherATraceIsRecorded(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.instance("shop", "shop-1", f.serve(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Traceparent")) }), nil)
	for end, args := range map[string][]string{"-01": nil, "-00": {"--trace-sampled=false"}} {
		_, at, _ := f.router("gateway", append([]string{"--route", "shop"}, args...)...)
		r, err := f.caller().get(at)
		if err != nil || r.status != http.StatusOK || !strings.HasSuffix(r.body, end) {
			t.Errorf("%v: %v %v", args, r, err)
		}
	}
}
