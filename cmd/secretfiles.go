package cmd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"lane/pkg/relay"
	"lane/pkg/token"
)

// badFile is the error of a file that a flag or a setting names: it says which of them,
// as the path alone does not tell a user what to change.
func badFile(by, hint string, err error) error {
	var path *fs.PathError
	var open *token.OpenError
	switch {
	case errors.As(err, &open):
		hint = "" // it says that itself
	case errors.As(err, &path) && errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no file %s", path.Path)
	}
	return usagef(hint, "%s: %v", by, err)
}

// The hints about files, by their kind.
const (
	certHint  = "name a file with the certificate in PEM, the server's or the user's own first, then those that signed it"
	keyHint   = "name a file with the private key of that certificate in PEM, without a passphrase, mode 0600"
	rootsHint = "name a file with certificates in PEM"

	newFileHint = "name a file that this user may write, in a directory that there is"
)

// keyPair reads a certificate and its key, which two flags or settings name.
func keyPair(certBy, cert, keyBy, key string) (tls.Certificate, error) {
	pair, err := relay.Load(cert, key)
	var bad *relay.FileError
	switch {
	case err == nil:
		return pair, nil
	case errors.As(err, &bad) && bad.Key:
		return pair, badFile(keyBy, keyHint, err)
	}
	return pair, badFile(certBy, certHint, err)
}

// roots reads the certificates of authorities, whose file a flag or a setting names.
func roots(by, path string) (*x509.CertPool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, badFile(by, rootsHint, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, badFile(by, rootsHint, fmt.Errorf("%s holds no certificate in PEM", path))
	}
	return pool, nil
}

// writeSecret writes a new file, which this user alone may read. before is done when it
// is certain that the file can be written, and undoes it by its error. What is there
// already is not written over, unless it is empty, as mktemp makes it, or no regular file.
func writeSecret(path, text string, before func() error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(path, os.O_WRONLY, 0)
	}
	if err != nil {
		return usagef(newFileHint, "--out: %v", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.Mode().IsRegular() && info.Size() > 0:
		err = usagef("name another file, or remove this one; `lane relay token list` and `lane relay token revoke ID` are for a token that nobody is to have any more",
			"--out: %s is there already, and is not written over", path)
	default:
		if info.Mode().IsRegular() {
			err = file.Chmod(0o600) // of one that was there
		}
		if err == nil {
			err = before()
		}
		if err == nil {
			_, err = file.WriteString(text)
		}
	}
	if err = errors.Join(err, file.Close()); err != nil && made {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
