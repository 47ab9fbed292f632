package ca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var day = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func made(t *testing.T, hosts ...string) (*Authority, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	a, err := Init(dir, Options{Owner: "alice@laptop", Hosts: hosts, Now: day})
	if err != nil {
		t.Fatal(err)
	}
	return a, dir
}

func issuer(t *testing.T, a *Authority, now func() time.Time) *Issuer {
	t.Helper()
	i, err := NewIssuer(a, now)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func at(when time.Time) func() time.Time { return func() time.Time { return when } }

func verify(a *Authority, leaf *x509.Certificate, host string, when time.Time) error {
	roots := x509.NewCertPool()
	roots.AddCert(a.Cert)
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: when})
	return err
}

func TestInit(t *testing.T) {
	a, dir := made(t)
	if got := a.Cert.NotAfter.Sub(day); got != 2*365*24*time.Hour {
		t.Errorf("valid for %v", got)
	}
	if !a.Cert.IsCA || !a.Cert.MaxPathLenZero || a.key.Curve != elliptic.P256() || !strings.Contains(a.Cert.Subject.CommonName, "alice@laptop") {
		t.Errorf("%+v", a.Cert.Subject)
	}
	if runtime.GOOS != "windows" {
		for name, want := range map[string]os.FileMode{"ca": 0o700, "ca/ca-key.pem": 0o600} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v %v", name, info.Mode(), err)
			}
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

func TestInitKeepsWhatIsThere(t *testing.T) {
	_, dir := made(t)
	before, err := os.ReadFile(Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	var exists *ExistsError
	if _, err := Init(dir, Options{Now: day}); !errors.As(err, &exists) || exists.Path != filepath.Dir(Path(dir)) {
		t.Errorf("%v", err)
	}
	if after, _ := os.ReadFile(Path(dir)); !bytes.Equal(before, after) {
		t.Error("it was replaced")
	}
}

func TestInitAtOnce(t *testing.T) {
	dir := t.TempDir()
	var won, lost, other int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := Init(dir, Options{Now: day})
			mu.Lock()
			defer mu.Unlock()
			var exists *ExistsError
			switch {
			case err == nil:
				won++
			case errors.As(err, &exists):
				lost++
			default:
				other++
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won != 1 || lost != 7 || other != 0 {
		t.Errorf("%d made one, %d were refused", won, lost)
	}
}

func TestInitRefusesHosts(t *testing.T) {
	for _, h := range []string{"", "*", "*.", "*.*.example", "a..b", "10.0.0.1", "::1", "a b", "https://x", "x:443", "-a.test"} {
		dir := t.TempDir()
		if _, err := Init(dir, Options{Hosts: []string{h}, Now: day}); err == nil {
			t.Errorf("%q was taken", h)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%q left %v", h, left)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	if _, err := Load(t.TempDir(), day); !errors.Is(err, ErrNone) {
		t.Errorf("none: %v", err)
	}
	for name, spoil := range map[string]func(dir string) error{
		"a key that others read":          func(dir string) error { return os.Chmod(filepath.Join(dir, "ca", keyName), 0o644) },
		"a directory that others write":   func(dir string) error { return os.Chmod(filepath.Join(dir, "ca"), 0o777) },
		"a certificate that others write": func(dir string) error { return os.Chmod(Path(dir), 0o666) },
		"no certificate":                  func(dir string) error { return os.Remove(Path(dir)) },
		"no key":                          func(dir string) error { return os.Remove(filepath.Join(dir, "ca", keyName)) },
		"no PEM":                          func(dir string) error { return os.WriteFile(Path(dir), []byte("x"), 0o644) },
		"another's certificate": func(dir string) error {
			_, other := made(t)
			b, err := os.ReadFile(Path(other))
			return errors.Join(err, os.WriteFile(Path(dir), b, 0o644))
		},
	} {
		if runtime.GOOS == "windows" && strings.Contains(name, "others") {
			continue
		}
		_, dir := made(t)
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		var unfit *UnfitError
		if _, err := Load(dir, day); !errors.As(err, &unfit) || unfit.Dir != filepath.Join(dir, "ca") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, dir := made(t)
	var unfit *UnfitError
	if _, err := Load(dir, day.Add(lifetime+time.Hour)); !errors.As(err, &unfit) || !strings.Contains(unfit.Why, "ended") {
		t.Errorf("one that has ended: %v", err)
	}
	if _, err := Load(dir, day); err != nil {
		t.Errorf("the twin: %v", err)
	}
}

func TestCertificate(t *testing.T) {
	a, _ := made(t, "*.test.example", "orders")
	i := issuer(t, a, at(day))
	for _, host := range []string{"api.test.example", "a.b.test.example", "test.example", "ORDERS.", "orders"} {
		c, err := i.Certificate(host)
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		name := strings.TrimSuffix(strings.ToLower(host), ".")
		if err := verify(a, c.Leaf, name, day); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		if verify(a, c.Leaf, "other.test.example", day) == nil {
			t.Errorf("%s is taken for another host", host)
		}
		if c.Leaf.IsCA {
			t.Errorf("%s is a CA", host)
		}
	}
	for _, host := range []string{"test.example.evil", "eviltest.example", "example", "bank.example", "10.0.0.1", "*.test.example", "", "a/b.test.example"} {
		if _, err := i.Certificate(host); err == nil {
			t.Errorf("%q got a certificate", host)
		}
	}
}

// The constraints hold at whoever verifies, also for what was signed with the key
// itself, past the issuer.
func TestConstraintsAreEnforced(t *testing.T) {
	a, _ := made(t, "*.test.example")
	free, _ := made(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(a *Authority, tmpl *x509.Certificate) *x509.Certificate {
		tmpl.SerialNumber, tmpl.NotBefore, tmpl.NotAfter = big.NewInt(7), day, day.Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, tmpl, a.Cert, &key.PublicKey, a.key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := verify(a, sign(a, &x509.Certificate{DNSNames: []string{"x.test.example"}}), "x.test.example", day); err != nil {
		t.Errorf("the host that it is for: %v", err)
	}
	if err := verify(free, sign(free, &x509.Certificate{DNSNames: []string{"bank.example"}}), "bank.example", day); err != nil {
		t.Errorf("without hosts: %v", err)
	}
	ip := net.IPv4(10, 0, 0, 1)
	for name, c := range map[string]struct {
		a    *Authority
		tmpl *x509.Certificate
		host string
	}{
		"another host":         {a, &x509.Certificate{DNSNames: []string{"bank.example"}}, "bank.example"},
		"a suffix, not a name": {a, &x509.Certificate{DNSNames: []string{"eviltest.example"}}, "eviltest.example"},
		"one of two":           {a, &x509.Certificate{DNSNames: []string{"x.test.example", "bank.example"}}, "x.test.example"},
		"an address":           {a, &x509.Certificate{IPAddresses: []net.IP{ip}}, "10.0.0.1"},
		"an address, no hosts": {free, &x509.Certificate{IPAddresses: []net.IP{ip}}, "10.0.0.1"},
	} {
		if verify(c.a, sign(c.a, c.tmpl), c.host, day) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	// Not a client's, and no authority below it.
	roots := x509.NewCertPool()
	roots.AddCert(a.Cert)
	client := sign(a, &x509.Certificate{DNSNames: []string{"x.test.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if _, err := client.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: day, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("it signs for clients")
	}
}

func TestLeavesAreKeptAndRenewed(t *testing.T) {
	a, _ := made(t)
	now := day
	i := issuer(t, a, func() time.Time { return now })
	first, err := i.Certificate("a.test")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := i.Certificate("A.test."); again != first {
		t.Error("not kept")
	}
	now = first.Leaf.NotAfter.Add(-renew)
	second, err := i.Certificate("a.test")
	if err != nil || second == first || !second.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Errorf("not renewed: %v", err)
	}
	now = a.Cert.NotAfter.Add(-time.Hour)
	if last, err := i.Certificate("b.test"); err != nil || last.Leaf.NotAfter.After(a.Cert.NotAfter) {
		t.Errorf("it outlives its CA: %v", err)
	}
	now = a.Cert.NotAfter
	if _, err := i.Certificate("c.test"); err == nil {
		t.Error("issued by a CA that has ended")
	}
}

func TestCacheIsBounded(t *testing.T) {
	a, _ := made(t)
	i := issuer(t, a, at(day))
	for n := range maxLeaves + 50 {
		if _, err := i.Certificate(fmt.Sprintf("h%d.test", n)); err != nil {
			t.Fatal(err)
		}
	}
	if len(i.leaves) != maxLeaves {
		t.Errorf("%d are kept", len(i.leaves))
	}
}

func TestConcurrentHandshakes(t *testing.T) {
	now := time.Now()
	a, err := Init(t.TempDir(), Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	i := issuer(t, a, time.Now)
	roots := x509.NewCertPool()
	roots.AddCert(a.Cert)
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			host := fmt.Sprintf("h%d.test.example", n%10)
			here, there := net.Pipe()
			defer here.Close()
			defer there.Close()
			server := tls.Server(there, &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return i.Certificate(h.ServerName) }})
			all.Go(func() { _ = server.Handshake() }) // the client's error says it
			client := tls.Client(here, &tls.Config{ServerName: host, RootCAs: roots})
			if err := client.Handshake(); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		})
	}
	all.Wait()
}
