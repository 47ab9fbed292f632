package session

import (
	"errors"
	"fmt"
	"testing"

	"lane/pkg/consul"
)

// Of a registry that answered before, the address is no mistake; what another error
// says stays.
func TestPlainly(t *testing.T) {
	away := &consul.UnreachableError{Address: "http://127.0.0.1:8500", What: "keep orders registered", Err: errors.New("connection refused")}
	const want = "the registry at http://127.0.0.1:8500 cannot be reached: connection refused"
	for _, err := range []error{away, fmt.Errorf("again: %w", away)} {
		if got := plainly(err); got != want {
			t.Errorf("%v: %q", err, got)
		}
	}
	if got := plainly(errors.New("permission denied")); got != "permission denied" {
		t.Errorf("%q", got)
	}
}
