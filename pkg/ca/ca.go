package ca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The files of an authority, in a directory that is the user's alone.
const (
	dirName  = "ca"
	certName = "ca.pem"
	keyName  = "ca-key.pem"
)

const (
	// lifetime is short for an authority: whoever gets its key can stand in for
	// every host that it may sign for.
	lifetime = 2 * 365 * 24 * time.Hour
	// skew is how far a clock that checks may be behind ours.
	skew = time.Hour
)

// ErrNone says that there is no authority.
var ErrNone = errors.New("there is no CA")

// ExistsError says that an authority is there already.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string { return "there is a CA already: " + e.Path }

// Authority is a certificate authority, loaded and checked.
type Authority struct {
	Path string // of the certificate
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Options says what an authority may sign for.
type Options struct {
	// Owner is in the certificate's name, so that people know whose it is.
	Owner string
	// Hosts are host or *.domain. With them, verifiers refuse what it signs for
	// any other host. X.509 knows no bare wildcard: the constraint for *.domain is
	// domain with all that is below it, and for a host also what is below it.
	Hosts []string
	Now   time.Time
}

// Path is where the certificate of a state directory's authority is.
func Path(stateDir string) string { return filepath.Join(stateDir, dirName, certName) }

// Init makes an authority. One that is there stays: the error is an *ExistsError.
func Init(stateDir string, o Options) (*Authority, error) {
	if _, err := os.Lstat(filepath.Join(stateDir, dirName)); err == nil {
		return nil, &ExistsError{Path: Path(stateDir)}
	}
	certPEM, keyPEM, err := create(o)
	if err != nil {
		return nil, fmt.Errorf("make a CA: %w", err)
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make a CA: %w", err)
	}
	// Written aside and renamed into place: nobody sees half of it, and of two
	// that do this at once one wins, because a directory that is not empty is not
	// replaced.
	tmp, err := os.MkdirTemp(stateDir, "ca-new-*") // 0700
	if err != nil {
		return nil, fmt.Errorf("make a CA: %w", err)
	}
	defer os.RemoveAll(tmp)
	err = errors.Join(
		os.WriteFile(filepath.Join(tmp, keyName), keyPEM, 0o600),
		os.WriteFile(filepath.Join(tmp, certName), certPEM, 0o644))
	if err != nil {
		return nil, fmt.Errorf("make a CA: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(stateDir, dirName)); err != nil {
		if _, there := os.Lstat(Path(stateDir)); there == nil {
			return nil, &ExistsError{Path: Path(stateDir)}
		}
		return nil, fmt.Errorf("make a CA: %w", err)
	}
	return Load(stateDir, o.Now)
}

func create(o Options) (certPEM, keyPEM []byte, err error) {
	permitted, err := domains(o.Hosts)
	if err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial,
		// The serial keeps two authorities of one person apart: some stores take
		// those with the same name for the same.
		Subject:   pkix.Name{CommonName: fmt.Sprintf("lane CA of %.30s, %x", o.Owner, serial.Bytes()[:4]), Organization: []string{"lane, for development"}},
		NotBefore: o.Now.Add(-skew), NotAfter: o.Now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:    x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		// Names only, and never an address.
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         permitted,
		ExcludedIPRanges: []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// newSerial is a random positive number whose first byte is never zero.
func newSerial() (*big.Int, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b), nil
}

// domains are the name constraints of hosts and *.domain.
func domains(hosts []string) ([]string, error) {
	var out []string
	for _, h := range hosts {
		d, err := hostName(strings.TrimPrefix(h, "*."))
		if err != nil {
			return nil, fmt.Errorf("%q: want a host or *.domain: %w", h, err)
		}
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out, nil
}

var errNoName = errors.New("not a host's name")

// hostName is a host's name in lower case without the dot at its end.
func hostName(s string) (string, error) {
	s = strings.TrimSuffix(strings.ToLower(s), ".")
	if len(s) > 253 {
		return "", errNoName
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", errNoName
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", errNoName
			}
		}
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return "", errors.New("an address, not a name")
	}
	return s, nil
}

// Load reads the authority of a state directory. It refuses a key that others can
// read, a certificate that has ended, and files that do not belong together.
func Load(stateDir string, now time.Time) (*Authority, error) {
	a := &Authority{Path: Path(stateDir)}
	block, err := readPEM(a.Path, "CERTIFICATE")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	if a.Cert, err = x509.ParseCertificate(block); err != nil {
		return nil, fmt.Errorf("read the CA: %s: %w", a.Path, err)
	}
	keyPath := filepath.Join(stateDir, dirName, keyName)
	info, err := os.Lstat(keyPath)
	if err != nil {
		return nil, fmt.Errorf("read the CA's key: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the CA's key %s can be read by others (%v): its secret is out; remove %s, and trust it nowhere",
			keyPath, info.Mode().Perm(), filepath.Dir(keyPath))
	}
	if block, err = readPEM(keyPath, "PRIVATE KEY"); err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return nil, fmt.Errorf("read the CA's key: %s: %w", keyPath, err)
	}
	ok := false
	if a.key, ok = key.(*ecdsa.PrivateKey); !ok || !a.key.PublicKey.Equal(a.Cert.PublicKey) || !a.Cert.IsCA {
		return nil, fmt.Errorf("read the CA: %s and %s do not belong together", a.Path, keyPath)
	}
	if now.After(a.Cert.NotAfter) {
		return nil, fmt.Errorf("the CA has ended on %s; remove %s, and make a new one",
			a.Cert.NotAfter.Format(time.DateOnly), filepath.Dir(a.Path))
	}
	return a, nil
}

func readPEM(path, kind string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	block, rest := pem.Decode(b)
	if block == nil || block.Type != kind || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("read the CA: %s holds no single %s", path, kind)
	}
	return block.Bytes, nil
}
