package listening

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheHolderOfAPort(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		port := ln.Addr().(*net.TCPAddr).Port
		if got := Holder(port); !strings.HasSuffix(got, fmt.Sprintf("(process %d)", os.Getpid())) {
			t.Errorf("%s: %q", at, got)
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		if got := Holder(port); got != "" && strings.Contains(got, fmt.Sprint(os.Getpid())) {
			t.Errorf("%s, closed: %q", at, got)
		}
	}
}

// What another user's process has open cannot be read.
func TestTheHolderIsAnotherUsers(t *testing.T) {
	proc := t.TempDir()
	if err := os.MkdirAll(filepath.Join(proc, "net"), 0o700); err != nil {
		t.Fatal(err)
	}
	table := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:1D32 00000000:0000 01 00000000:00000000 00:00000000 00000000  4242        0 77 1\n" +
		"   1: 0100007F:1D32 00000000:0000 0A 00000000:00000000 00:00000000 00000000  4242        0 78 1\n" +
		"  nonsense\n"
	if err := os.WriteFile(filepath.Join(proc, "net", "tcp"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	for port, want := range map[int]string{7474: "a process of user 4242", 7475: ""} {
		if got := holder(proc, port); got != want {
			t.Errorf("%d: %q, want %q", port, got, want)
		}
	}
	fd := filepath.Join(proc, "31", "fd")
	if err := os.MkdirAll(fd, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("socket:[78]", filepath.Join(fd, "3")); err != nil {
		t.Fatal(err)
	}
	if got := holder(proc, 7474); got != "process 31" {
		t.Errorf("%q", got)
	}
}
