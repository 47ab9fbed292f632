package consultest

import (
	"crypto/rand"
	"strings"
	"testing"
)

// Name is a name that no other test of the process uses: base, a hyphen and
// eight letters or digits.
func Name(tb testing.TB, base string) string {
	tb.Helper()
	return base + "-" + strings.ToLower(rand.Text()[:8])
}
