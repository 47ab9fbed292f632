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
	"io"
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

// ExistsError says that an authority is there already, whole or not.
type ExistsError struct{ Path string } // its directory

func (e *ExistsError) Error() string { return "there is a CA already, in " + e.Path }

// HostError says that an authority cannot be made for a host.
type HostError struct {
	Host string
	Err  error
}

func (e *HostError) Error() string {
	return fmt.Sprintf("%q: want a host or *.domain: %v", e.Host, e.Err)
}
func (e *HostError) Unwrap() error { return e.Err }

// UnfitError says that an authority must not be used, and that a new one is the
// way out.
type UnfitError struct {
	Dir string // of the authority: to be removed
	Why string
}

func (e *UnfitError) Error() string { return "the CA in " + e.Dir + " cannot be used: " + e.Why }

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

// Made is when the authority was made, to the second.
func (a *Authority) Made() time.Time { return a.Cert.NotBefore.Add(skew) }

// Path is where the certificate of a state directory's authority is.
func Path(stateDir string) string { return filepath.Join(stateDir, dirName, certName) }

// Init makes an authority. One that is there stays: the error is an *ExistsError.
func Init(stateDir string, o Options) (*Authority, error) {
	dir := filepath.Join(stateDir, dirName)
	if _, err := os.Lstat(dir); err == nil {
		return nil, &ExistsError{Path: dir}
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
		os.WriteFile(filepath.Join(tmp, certName), certPEM, 0o644)) //nolint:gosec // a certificate is there to be read
	if err != nil {
		return nil, fmt.Errorf("make a CA: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, there := os.Lstat(dir); there == nil {
			return nil, &ExistsError{Path: dir}
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
		d, err := domain(h)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out, nil
}

func domain(host string) (string, error) {
	d, err := hostName(strings.TrimPrefix(host, "*."))
	if err != nil {
		return "", &HostError{Host: host, Err: err}
	}
	return d, nil
}

// CheckHost returns a *HostError for what no authority can be made for.
func CheckHost(host string) error {
	_, err := domain(host)
	return err
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
// read, a certificate that has ended, and files that do not belong together: these
// are an *UnfitError. Without any authority it is ErrNone.
func Load(stateDir string, now time.Time) (*Authority, error) {
	dir := filepath.Join(stateDir, dirName)
	unfit := func(format string, v ...any) error { return &UnfitError{Dir: dir, Why: fmt.Sprintf(format, v...)} }
	a := &Authority{Path: Path(stateDir)}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	if private(info, 0o022) != nil { // they could put another CA there
		return nil, unfit("others can write to its directory (%v)", info.Mode().Perm())
	}
	block, err := readPEM(a.Path, "CERTIFICATE", 0o022)
	if err != nil {
		return nil, unfit("its certificate: %v", err)
	}
	if a.Cert, err = x509.ParseCertificate(block); err != nil {
		return nil, unfit("its certificate: %v", err)
	}
	if block, err = readPEM(filepath.Join(dir, keyName), "PRIVATE KEY", 0o077); err != nil {
		return nil, unfit("its key: %v", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return nil, unfit("its key: %v", err)
	}
	ok := false
	if a.key, ok = key.(*ecdsa.PrivateKey); !ok || !a.key.PublicKey.Equal(a.Cert.PublicKey) || !a.Cert.IsCA {
		return nil, unfit("certificate and key do not belong together")
	}
	if now.After(a.Cert.NotAfter) {
		return nil, unfit("it has ended on %s", a.Cert.NotAfter.Format(time.DateOnly))
	}
	return a, nil
}

// readPEM reads the one block of a file that others have none of these rights to.
// What is checked is what is read, whatever the name stands for a moment later.
func readPEM(path, kind string, rights fs.FileMode) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := private(info, rights); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(b)
	if block == nil || block.Type != kind || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%s holds no single %s", path, kind)
	}
	return block.Bytes, nil
}

// private says why a file is open to others, who must not have these rights to it.
func private(info fs.FileInfo, rights fs.FileMode) error {
	if m := info.Mode().Perm(); runtime.GOOS != "windows" && m&rights != 0 { // Windows has no such bits
		return fmt.Errorf("%s is open to others (mode %#o): its secret may be out", info.Name(), m)
	}
	return nil
}
