package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

func open(t *testing.T, path string, maxSize int64, keep int) *File {
	t.Helper()
	l, err := Open(path, maxSize, keep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, path, 14, 2)
	for i := range 7 {
		if n, err := fmt.Fprintf(l, "line %d\n", i); n != 7 || err != nil {
			t.Fatal(n, err)
		}
	}
	for name, want := range map[string]string{path: "line 5\nline 6\n", path + ".1": "line 3\nline 4\n", path + ".2": "line 1\nline 2\n", path + ".3": ""} {
		if got := read(t, name); got != want {
			t.Errorf("%s: %q, want %q", filepath.Base(name), got, want)
		}
	}
	long := strings.Repeat("x", 100) + "\n"
	if _, err := l.Write([]byte(long)); err != nil || read(t, path) != long {
		t.Errorf("a line that is larger than the bound: %q %v", read(t, path), err)
	}
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := Remove(path); err != nil {
		t.Errorf("again: %v", err)
	}
}

// A log that cannot be moved away is not lost.
func TestALogThatCannotBeMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	l := open(t, path, 10, 1)
	if err := os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Write([]byte("12345678\n")); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, path); strings.Count(got, "\n") != 3 {
		t.Errorf("%q", got)
	}
}

func TestWritersAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	l := open(t, path, 1000, 100)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 100 {
				if _, err := fmt.Fprintf(l, "%d %d\n", i, j); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	files, _ := filepath.Glob(path + "*")
	lines := 0
	for _, f := range files {
		got := read(t, f)
		lines += strings.Count(got, "\n")
		if len(got) > 1000 {
			t.Errorf("%s has %d bytes", f, len(got))
		}
	}
	if lines != 800 {
		t.Errorf("%d lines of 800", lines)
	}
}
