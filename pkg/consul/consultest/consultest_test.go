package consultest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	StopReal()
	if err := goleak.Find(); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(code)
}

func TestEach(t *testing.T) {
	Each(t, func(t *testing.T, addr string) {
		client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
		resp, err := client.Get("http://" + addr + "/v1/status/leader")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %s, want 200", resp.Status)
		}
	})
}

func TestMissingBinaryIsAFailure(t *testing.T) {
	_, err := start(filepath.Join(t.TempDir(), "none"), "")
	if err == nil || !strings.Contains(err.Error(), "none") {
		t.Fatalf("start of a missing binary gave %v, want an error that names it", err)
	}
}

func TestBinaryThatEndsIsAFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "consul")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho broken; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := start(path, "")
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Fatalf("got %v, want an error that shows the log", err)
	}
}

func TestNamesDiffer(t *testing.T) {
	if a, b := Name(t, "web"), Name(t, "web"); a == b || !strings.HasPrefix(a, "web-") {
		t.Fatalf("names %q and %q, want two of web-", a, b)
	}
}
