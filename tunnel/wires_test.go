package tunnel

import (
	"testing"

	"lane/tunnel/wiretest"
)

// slow is an uplink of 2 Mbit/s.
var slow = wiretest.Config{Rate: 250_000}

func wire1(t testing.TB, target string, c wiretest.Config) *wiretest.Wire {
	t.Helper()
	w, err := wiretest.New(target, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}
