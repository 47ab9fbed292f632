package relay

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The registry is asked again within seconds: what is the same is said once.
func TestThatNothingIsHeardIsSaidOnce(t *testing.T) {
	var said bytes.Buffer
	r := &relay{o: Options{Logger: slog.New(slog.NewTextHandler(&said, nil)), Now: time.Now}}
	refused := errors.New("connection refused")
	for _, c := range []struct {
		err  error
		want int
	}{{refused, 1}, {refused, 1}, {errors.New("no leader"), 2}, {refused, 3}} {
		if r.deaf(c.err); strings.Count(said.String(), "which tokens are revoked") != c.want {
			t.Errorf("%v: %s, want %d lines", c.err, &said, c.want)
		}
	}
}
