//go:build unix

package cmd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// clientcerts CA NAME... makes an authority, CA.pem, and a certificate of it for each
// user, NAME.pem with its key.
func cmdClientCerts(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "clientcerts CA NAME...")
	make1 := func(tmpl, parent *x509.Certificate, by *ecdsa.PrivateKey) (der []byte, key *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ts.Check(err)
		if by == nil {
			by = key
		}
		der, err = x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, by)
		ts.Check(err)
		return der, key
	}
	write := func(name string, blocks ...*pem.Block) {
		var out []byte
		for _, b := range blocks {
			out = append(out, pem.EncodeToMemory(b)...)
		}
		ts.Check(os.WriteFile(ts.MkAbs(name+".pem"), out, 0o600))
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: args[0]}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, ca := make1(root, root, nil)
	write(args[0], &pem.Block{Type: "CERTIFICATE", Bytes: der})
	for _, user := range args[1:] {
		der, key := make1(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user}, NotBefore: root.NotBefore, NotAfter: time.Now().AddDate(1, 0, 0),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature}, root, ca)
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		ts.Check(err)
		write(user, &pem.Block{Type: "CERTIFICATE", Bytes: der}, &pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	}
}
