//go:build unix

package ca

import (
	"bytes"
	"crypto/x509"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBundle(t *testing.T) {
	a, dir := made(t)
	other, otherDir := made(t)
	theirs, err := os.ReadFile(Path(otherDir))
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(base, bytes.TrimSpace(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := a.Bundle(base)
	if err != nil || filepath.Dir(path) != filepath.Join(dir, "ca") {
		t.Fatalf("%s %v", path, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(b) || bytes.Count(b, []byte("BEGIN")) != 2 {
		t.Fatalf("%s", b)
	}
	for _, who := range []*Authority{a, other} {
		c, err := issuer(t, who, at(day)).Certificate("x.test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: "x.test", Roots: roots, CurrentTime: day}); err != nil {
			t.Error(err)
		}
	}
	// The same again, also from what it has made itself, is the same file.
	for _, from := range []string{base, path} {
		if again, err := a.Bundle(from); err != nil || again != path {
			t.Errorf("from %s: %s %v", from, again, err)
		}
	}
	// Another base is another file; what nobody has used for long goes.
	old := time.Now().Add(-unused - time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(base, append([]byte("# more\n"), theirs...), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := a.Bundle(base)
	if err != nil || second == path {
		t.Errorf("%s %v", second, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "ca", "*"))
	if err != nil || len(left) != 3 { // certificate, key, bundle
		t.Errorf("%v %v", left, err)
	}
}

func TestBundleRefuses(t *testing.T) {
	a, dir := made(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{empty, t.TempDir(), filepath.Join(dir, "none"), os.DevNull} {
		if path, err := a.Bundle(base); err == nil {
			t.Errorf("%s: %s", base, path)
		}
	}
}

func TestSystemRoots(t *testing.T) {
	before := systemRoots
	defer func() { systemRoots = before }()
	file := filepath.Join(t.TempDir(), "roots.pem")
	systemRoots = []string{t.TempDir(), file}
	if got := SystemRoots(); got != "" {
		t.Errorf("%s", got)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := SystemRoots(); got != file {
		t.Errorf("%s", got)
	}
}

// A stand-in for keytool: what it is asked for, in
// which environment, and what is made of a failure.
func TestJavaStore(t *testing.T) {
	a, dir := made(t)
	home := t.TempDir()
	for _, d := range []string{"bin", "lib/security"} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script := `#!/bin/sh
[ -z "$JAVA_TOOL_OPTIONS" ] || exit 3
echo "$@" >>"$0.log"
for a; do
  case $last in -destkeystore) echo store >"$a" ;; -keystore) [ -f "$a" ] || exit 4; echo more >>"$a" ;; esac
  last=$a
done
[ ! -f "$0.fail" ] || { echo sorry; exit 1; }
`
	tool := filepath.Join(home, "bin", "keytool")
	if err := os.WriteFile(tool, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=none")
	if _, err := a.JavaStore(t.Context(), home); err == nil || !strings.Contains(err.Error(), "roots") {
		t.Errorf("without cacerts: %v", err)
	}
	if err := os.WriteFile(filepath.Join(home, "lib/security/cacerts"), []byte("jvm"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool+".fail", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.JavaStore(t.Context(), home); err == nil || !strings.Contains(err.Error(), "sorry") {
		t.Errorf("a keytool that fails: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "ca", "*")); len(left) != 2 {
		t.Errorf("left %v", left)
	}
	if err := os.Remove(tool + ".fail"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(tool + ".log"); err != nil {
		t.Fatal(err)
	}
	var first string
	for range 2 {
		path, err := a.JavaStore(t.Context(), home)
		if err != nil || first != "" && path != first {
			t.Fatalf("%s %v", path, err)
		}
		first = path
		if b, err := os.ReadFile(path); err != nil || string(b) != "store\nmore\n" {
			t.Errorf("%q %v", b, err)
		}
	}
	log, err := os.ReadFile(tool + ".log")
	if err != nil || strings.Count(string(log), "\n") != 2 || !strings.Contains(string(log), "-deststoretype PKCS12") || !strings.Contains(string(log), "-file "+a.Path) {
		t.Errorf("%s %v", log, err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := a.JavaStore(t.Context(), ""); !errors.Is(err, ErrNoKeytool) {
		t.Errorf("no keytool: %v", err)
	}
}

// The real keytool makes a store that holds the JVM's roots and ours.
func TestJavaStoreOfTheRealKeytool(t *testing.T) {
	tool, err := exec.LookPath("keytool")
	if err != nil {
		t.Fatalf("this test needs keytool, which scripts/tools installs: %v", err)
	}
	a, _ := made(t)
	path, err := a.JavaStore(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "-list", "-storetype", "PKCS12", "-keystore", path, "-storepass", JavaPassword).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("lane-ca")) || bytes.Count(out, []byte("trustedCertEntry")) < 20 {
		t.Errorf("%v: %s", err, out)
	}
}
