//go:build unix

package cmd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lane/pkg/relay"
)

// A file that is of no use is named with the flag that names it, and what to put there.
func TestFilesOfCertificates(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair := func(name string) string { // a certificate and its key in one file
		t.Helper()
		d := filepath.Join(dir, name)
		if _, err := relay.Certificate(d, nil, time.Now()); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(d, "tls.pem")
	}
	one, two := pair("one"), pair("two")
	text, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	open := write("open.pem", string(text), 0o644)
	junk, empty := write("junk.pem", "no PEM at all\n", 0o600), write("empty.pem", "", 0o600)
	broken := write("broken.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), 0o600)
	badKey := write("badkey.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})), 0o600)
	locked := write("locked.pem", string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})), 0o600)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	other := write("other.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), 0o600)
	none := filepath.Join(dir, "none.pem")

	for _, c := range []struct{ cert, key, want, hint string }{
		{one, one, "", ""},
		{open, one, "", ""}, // a certificate is no secret
		{one, two, "--key: " + two + " holds the key of another certificate than the first one in " + one + ", which is of CN=lane relay", "private key of that certificate"},
		{one, other, "--key: " + other + " holds the key of another certificate", "private key"},
		{junk, one, "--cert: " + junk + " holds no certificate in PEM", "name a file with the certificate in PEM"},
		{empty, one, "--cert: " + empty + " holds no certificate in PEM", "PEM"},
		{other, one, "--cert: " + other + " holds no certificate in PEM", "PEM"},
		{broken, one, "--cert: " + broken + " holds a certificate that cannot be read", "PEM"},
		{none, one, "--cert: there is no file " + none, "PEM"},
		{dir, one, "--cert: read " + dir + ": is a directory", "PEM"},
		{one, none, "--key: there is no file " + none, "private key"},
		{one, junk, "--key: " + junk + " holds no private key in PEM", "private key"},
		{one, badKey, "--key: " + badKey + " holds a private key that cannot be read", "private key"},
		{one, locked, "--key: " + locked + " holds a private key behind a passphrase", "without a passphrase"},
		{one, open, "--key: " + open + " can be read by others (mode 0644)", ""},
		{one, dir, "--key: " + dir + " is a directory", "private key"},
	} {
		_, err := keyPair("--cert", c.cert, "--key", c.key)
		expect(t, c.cert+" "+c.key, err, c.want, c.hint)
	}
	for _, c := range []struct{ path, want string }{
		{one, ""},
		{other, "--client-ca: " + other + " holds no certificate in PEM"},
		{empty, "--client-ca: " + empty + " holds no certificate in PEM"},
		{none, "--client-ca: there is no file " + none},
		{dir, "--client-ca: read " + dir + ": is a directory"},
	} {
		_, err := roots("--client-ca", c.path)
		expect(t, c.path, err, c.want, "certificates in PEM")
	}
}

func expect(t *testing.T, what string, err error, want, hint string) {
	t.Helper()
	var usage *usageError
	switch {
	case want == "" && err != nil, want != "" && !errors.As(err, &usage):
		t.Errorf("%s: %v", what, err)
	case want != "" && (!strings.HasPrefix(usage.msg, want) || !strings.Contains(usage.hint, hint)):
		t.Errorf("%s: %q, %q, want %q", what, usage.msg, usage.hint, want)
	}
}
