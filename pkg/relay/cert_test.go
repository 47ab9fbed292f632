package relay_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/relay"
	"lane/tunnel"
)

func TestACertificateIsMadeOnce(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "relay"), time.Now()
	prints := make([]string, 8)
	var all sync.WaitGroup
	for i := range prints { // as relays that start at once
		all.Go(func() {
			cert, err := relay.Certificate(dir, []string{"relay.test.example", "127.0.0.1"}, now)
			if err != nil {
				t.Error(err)
				return
			}
			prints[i] = tunnel.Fingerprint(cert.Certificate[0])
			if err := cert.Leaf.VerifyHostname("relay.test.example"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, p := range prints[1:] {
		if p != prints[0] {
			t.Fatalf("several certificates: %v", prints)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if _, err := relay.Certificate(dir, nil, now.Add(6*365*24*time.Hour)); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("years later: %v", err)
	}
	if err := os.Chmod(files[0], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := relay.Certificate(dir, nil, now); err == nil || !strings.Contains(err.Error(), "read by others") {
		t.Errorf("a key that others can read: %v", err)
	}
}
