package cmd

import "testing"

func TestReachedIsAnAddressThatWorks(t *testing.T) {
	const every = " (and at every other address of this machine)"
	for addr, want := range map[string]string{
		"127.0.0.1:8080":   "http://127.0.0.1:8080",
		"192.0.2.7:8080":   "http://192.0.2.7:8080",
		"[2001:db8::7]:80": "http://[2001:db8::7]:80",
		"[::]:8080":        "http://127.0.0.1:8080" + every,
		"0.0.0.0:8080":     "http://127.0.0.1:8080" + every,
	} {
		if got := reached(addr); got != want {
			t.Errorf("reached(%q) = %q, want %q", addr, got, want)
		}
	}
}
