package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestDirs(t *testing.T) {
	for _, c := range []struct {
		name           string
		goos           string
		home           string
		env            map[string]string
		state, runtime string // "" is an error
	}{
		{"linux", "linux", "/home/a", nil, "/home/a/.local/state/lane", "/tmp/lane-7"},
		{"xdg", "linux", "/home/a", map[string]string{"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/run/user/7"}, "/s/lane", "/run/user/7/lane"},
		{"relative xdg is ignored", "linux", "/home/a", map[string]string{"XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "r"}, "/home/a/.local/state/lane", "/tmp/lane-7"},
		{"chosen", "linux", "", map[string]string{"LANE_STATE_DIR": "/x", "LANE_RUNTIME_DIR": "/y", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"}, "/x", "/y"},
		{"mac", "darwin", "/Users/a", nil, "/Users/a/Library/Application Support/lane", "/tmp/lane-7"},
		{"windows", "windows", "", map[string]string{"LocalAppData": "/local"}, "/local/lane", "/tmp/lane"},
		{"windows without", "windows", "/home", nil, "", "/tmp/lane"},
		{"no home", "linux", "", nil, "", "/tmp/lane-7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := System{Getenv: env(c.env), GOOS: c.goos, Home: c.home, Temp: "/tmp", UID: 7}
			if got, err := StateDir(s); got != c.state || (err == nil) != (c.state != "") {
				t.Errorf("state %q, %v, want %q", got, err, c.state)
			}
			if got, err := RuntimeDir(s); got != c.runtime || err != nil {
				t.Errorf("runtime %q, %v, want %q", got, err, c.runtime)
			}
		})
	}
	if UserFile("") != "" || UserFile("/c") != filepath.Join("/c", "lane", "lane.yaml") {
		t.Error(UserFile("/c"))
	}
}

func TestMakePrivate(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "deep", "run")
	for range 2 { // made, then found
		if err := MakePrivate(dir); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakePrivate(file); err == nil || !strings.Contains(err.Error(), "no directory") {
		t.Errorf("a file: %v", err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := MakePrivate(link); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a link: %v", err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, mode := range []os.FileMode{0o755, 0o770, 0o701} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := MakePrivate(dir); err == nil || !strings.Contains(err.Error(), "open to others") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if err := MakePrivate(dir); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("another's: %v", err)
		}
	}
}

// A relative directory, and one whose sockets could not be made, are refused.
func TestDirsThatAreNone(t *testing.T) {
	for _, name := range []string{"LANE_STATE_DIR", "LANE_RUNTIME_DIR"} {
		s := System{GOOS: "linux", Home: "/home/a", Temp: "/tmp", Getenv: func(k string) string { return map[string]string{name: "rel"}[k] }}
		dir := StateDir
		if name == "LANE_RUNTIME_DIR" {
			dir = RuntimeDir
		}
		var bad *DirError
		if got, err := dir(s); !errors.As(err, &bad) || bad.Name != name || !strings.Contains(bad.Why, `"rel"`) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	var bad *DirError
	if err := CheckRuntimeDir("/" + strings.Repeat("x", 90)); !errors.As(err, &bad) {
		t.Errorf("a long directory: %v", err)
	}
	if err := CheckRuntimeDir("/run/user/1000/lane"); err != nil {
		t.Error(err)
	}
}

// A variable that names a file says so by its own name, and asks nobody to remove the
// file; a directory, and one that is not there yet, are good.
func TestDirsThatAreFiles(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(base, "taken") // its directory for lane is a file
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(taken, "lane"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		dir  func(System) (string, error)
	}{{"LANE_STATE_DIR", StateDir}, {"XDG_STATE_HOME", StateDir}, {"LANE_RUNTIME_DIR", RuntimeDir}, {"XDG_RUNTIME_DIR", RuntimeDir}} {
		for value, good := range map[string]bool{file: false, taken: strings.HasPrefix(c.name, "LANE_"), base: true, filepath.Join(base, "none"): true} {
			s := System{GOOS: "linux", Home: "/home/a", Temp: "/tmp", Getenv: func(k string) string { return map[string]string{c.name: value}[k] },
				IsFile: func(p string) bool {
					info, err := os.Stat(p)
					return err == nil && !info.IsDir()
				}}
			_, err := c.dir(s)
			var bad *DirError
			if good != (err == nil) {
				t.Errorf("%s=%s: %v", c.name, value, err)
			}
			if !good && (!errors.As(err, &bad) || bad.Name != c.name || !strings.Contains(bad.Why, "is a file") || strings.Contains(bad.Why, "remove")) {
				t.Errorf("%s=%s: %v", c.name, value, err)
			}
		}
	}
}

func TestSocketPath(t *testing.T) {
	if p, err := SocketPath("/run", "a.sock"); err != nil || p != filepath.Join("/run", "a.sock") {
		t.Errorf("%q, %v", p, err)
	}
	if p, err := SocketPath("/"+strings.Repeat("x", 100), "a.sock"); err == nil {
		t.Errorf("%d bytes: %q", len(p), p)
	}
}

func TestInstallIDIsStableAndPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := InstallID(dir)
	if err != nil || len(first) != 2*installBytes {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := InstallID(dir); err != nil || again != first {
		t.Errorf("%q, then %q, %v", first, again, err)
	}
	other, err := InstallID(filepath.Join(t.TempDir(), "state"))
	if err != nil || other == first {
		t.Errorf("two installations are %q and %q, %v", first, other, err)
	}
	info, err := os.Stat(filepath.Join(dir, "install-id"))
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	for _, bad := range []string{"", "xyz", first[:4], first + first} {
		if err := os.WriteFile(filepath.Join(dir, "install-id"), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := InstallID(dir); err == nil || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%q was read as %q, %v", bad, id, err)
		}
	}
}

func TestInstallIDOfManyFirstRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, err := InstallID(dir)
			if err != nil {
				t.Error(err)
			}
			ids[i] = id
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("several ids: %q", ids)
		}
	}
}
