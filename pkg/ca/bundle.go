package ca

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxRoots bounds a file of roots that is merged: a wrong path must not fill the
// memory.
const maxRoots = 16 << 20

// systemRoots are where systems keep all their roots in one file.
var systemRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Gentoo
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"/etc/pki/tls/certs/ca-bundle.crt",                  // older ones
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/ssl/cert.pem",                                 // Alpine, macOS, the BSDs
}

// SystemRoots is the file of this system's roots, empty where it has none.
func SystemRoots() string {
	for _, p := range systemRoots {
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p
		}
	}
	return ""
}

// Bundle writes the certificates of a file, and this authority's, into one file
// beside it, and returns its path. Its name is its content's: whoever reads it at
// this moment never sees another.
func (a *Authority) Bundle(base string) (string, error) {
	info, err := os.Stat(base)
	if err != nil {
		return "", fmt.Errorf("read roots: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxRoots {
		return "", fmt.Errorf("read roots: %s is not a file of at most %d bytes", base, maxRoots)
	}
	roots, err := os.ReadFile(base)
	if err != nil {
		return "", fmt.Errorf("read roots: %w", err)
	}
	if block, _ := pem.Decode(roots); block == nil {
		return "", fmt.Errorf("read roots: %s holds no certificate in PEM", base)
	}
	own := a.pem()
	if !bytes.Contains(roots, own) { // it may be a bundle of ours
		if roots[len(roots)-1] != '\n' {
			roots = append(roots, '\n')
		}
		roots = append(roots, own...)
	}
	return a.keep("bundle-", ".pem", roots, func(path string) error { return os.WriteFile(path, roots, 0o600) })
}

func (a *Authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})
}

// unused is when a file that was made for programs goes: none that runs still
// needs it to start.
const unused = 30 * 24 * time.Hour

// keep makes a file beside the authority, named after what it is made of, unless
// it is there, and removes those of its kind that have not been used for long.
func (a *Authority) keep(prefix, suffix string, of []byte, write func(path string) error) (string, error) {
	dir := filepath.Dir(a.Path)
	sum := sha256.Sum256(of)
	path := filepath.Join(dir, prefix+hex.EncodeToString(sum[:8])+suffix)
	now := time.Now() // of the file system, not of certificates
	if err := os.Chtimes(path, now, now); err == nil {
		return path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("keep %s: %w", path, err)
	}
	// In a directory of its own: some programs insist on making the file themselves.
	tmp, err := os.MkdirTemp(dir, "new-*")
	if err != nil {
		return "", fmt.Errorf("keep %s: %w", path, err)
	}
	defer os.RemoveAll(tmp)
	made := filepath.Join(tmp, filepath.Base(path))
	if err := write(made); err != nil {
		return "", fmt.Errorf("keep %s: %w", path, err)
	}
	if err := os.Rename(made, path); err != nil {
		return "", fmt.Errorf("keep %s: %w", path, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("keep %s: %w", path, err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > unused {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next one tries again
		}
	}
	return path, nil
}
