package token

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The files of a relay's directory, which is its user's alone.
const (
	keyName    = "token-key.pem"
	publicName = "token-key.pub.pem"
	ledgerName = "tokens.json"
)

// Keeper keeps the key that signs, and what was signed with it, in a directory.
type Keeper struct{ Dir string }

// KeyPath is where the private key is.
func (k Keeper) KeyPath() string { return filepath.Join(k.Dir, keyName) }

// PublicPath is where the public key is: a relay on another machine needs no more.
func (k Keeper) PublicPath() string { return filepath.Join(k.Dir, publicName) }

// OpenError says that a file with a secret can be read by others.
type OpenError struct {
	Path string
	Mode fs.FileMode
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("%s can be read by others (mode %#o): chmod 600 it, and take another secret if it may be out", e.Path, e.Mode)
}

// Key returns the private key, and makes one if there is none.
func (k Keeper) Key() (ed25519.PrivateKey, error) {
	key, err := k.readKey()
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the key for tokens: %w", err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key for tokens: %w", err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("make the key for tokens: %w", err)
	}
	// Linked into place: of two that do this at once one wins, and both read that.
	if err := WriteOnce(k.KeyPath(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the key for tokens: %w", err)
	}
	if key, err = k.readKey(); err != nil {
		return nil, err
	}
	if raw, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		return nil, fmt.Errorf("make the key for tokens: %w", err)
	}
	if err := place(k.PublicPath(), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: raw}), os.Rename); err != nil {
		return nil, fmt.Errorf("make the key for tokens: %w", err)
	}
	return key, nil
}

func (k Keeper) readKey() (ed25519.PrivateKey, error) {
	b, err := ReadSecret(k.KeyPath())
	if err != nil {
		return nil, err
	}
	block, err := onePEM(k.KeyPath(), b, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.KeyPath(), err)
	}
	ed, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds no Ed25519 key", k.KeyPath())
	}
	return ed, nil
}

// ReadPublic reads the public key from a file of PublicPath's kind. A private one
// is refused: a relay that has none can give none away.
func ReadPublic(path string) (ed25519.PublicKey, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(b); block != nil && block.Type == "PRIVATE KEY" {
		return nil, fmt.Errorf("%s holds a private key: a relay needs the public one alone (%s, beside it)", path, publicName)
	}
	block, err := onePEM(path, b, "PUBLIC KEY")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKIXPublicKey(block)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ed, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%s holds no Ed25519 key", path)
	}
	return ed, nil
}

func onePEM(path string, b []byte, kind string) ([]byte, error) {
	block, rest := pem.Decode(b)
	if block == nil || block.Type != kind || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%s holds no single %s", path, kind)
	}
	return block.Bytes, nil
}

// place writes a file aside, for its user alone, and puts it in place.
func place(path string, b []byte, how func(from, to string) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return how(tmp.Name(), path)
}

// WriteOnce writes a file for its user alone, unless it is there: then it stays, and
// the error is fs.ErrExist. Of two that do this at once one wins, and nobody reads half
// of it.
func WriteOnce(path string, b []byte) error {
	return place(path, b, func(from, to string) error {
		err := os.Link(from, to)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		if _, there := os.Lstat(to); there == nil {
			return fs.ErrExist
		}
		return os.Rename(from, to) // a file system without hard links
	})
}

// maxSecret bounds what is read from a file, in bytes.
const maxSecret = 1 << 16

// ReadSecret reads a file that only its user can read; another one is an
// *OpenError. What is checked is what is read, whatever the name stands for a
// moment later.
func ReadSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() { // before its mode: a directory that nobody else may read is of no use either
		return nil, fmt.Errorf("%s is a directory, and no file with a secret", path)
	}
	if m := info.Mode().Perm(); runtime.GOOS != "windows" && m&0o077 != 0 { // Windows has no such bits
		return nil, &OpenError{Path: path, Mode: m}
	}
	return io.ReadAll(io.LimitReader(f, maxSecret))
}

// Read returns a token from a file of ReadSecret's kind.
func Read(path string) (string, error) {
	b, err := ReadSecret(path)
	if err != nil {
		return "", err
	}
	return Text(path, string(b))
}

// Text is the token that something holds, without the line end behind it. What has more
// than one line no request could bear.
func Text(holder, held string) (string, error) {
	text := strings.TrimSpace(held)
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s holds no token: it is to be one line", holder)
	}
	return text, nil
}

// keptFor is how long a token that has ended is still listed.
const keptFor = 24 * time.Hour

// Issued returns what was signed here, the newest last; those that ended a day ago
// are gone. It holds no token, only what each of them says.
func (k Keeper) Issued() ([]Grant, error) {
	b, err := os.ReadFile(filepath.Join(k.Dir, ledgerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of tokens: %w", err)
	}
	var out []Grant
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(k.Dir, ledgerName), err)
	}
	return out, nil
}

// Note adds a grant to the list.
func (k Keeper) Note(g Grant) error {
	all, err := k.Issued()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(old Grant) bool { return g.Issued.Sub(old.Expires) > keptFor })
	b, err := json.MarshalIndent(append(all, g), "", "  ")
	if err != nil {
		return err
	}
	if err := place(filepath.Join(k.Dir, ledgerName), append(b, '\n'), os.Rename); err != nil {
		return fmt.Errorf("write the list of tokens: %w", err)
	}
	return nil
}
