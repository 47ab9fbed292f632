//go:build unix

package cmd

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The services that the clients call: HTTP and gRPC, each without TLS and with.
var clientServices = []string{"web", "web-tls", "rpc", "rpc-tls"}

// download is what a call without a body is answered with: more than one buffer.
var download = bytes.Repeat([]byte("0123456789abcde\n"), 10_000)

// answer is what a server of one side, the lane or the baseline, says to a
// call: who it is, the tag that it saw, and the body that it got.
func answer(side string, tags []string, body []byte) []byte {
	if len(body) == 0 {
		body = download
	}
	return append(fmt.Appendf(nil, "%s %q\n", side, strings.Join(tags, ",")), body...)
}

// clientServers starts the servers of one side until the test ends, and returns
// their ports by service.
func clientServers(t *testing.T, side string, cert tls.Certificate) map[string]int {
	t.Helper()
	ports := map[string]int{}
	listen := func(service string) net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[service] = ln.Addr().(*net.TCPAddr).Port
		return ln
	}
	serve := func(serve func() error, stop func()) {
		done := make(chan struct{})
		go func() { defer close(done); _ = serve() }() // it ends with stop
		t.Cleanup(func() { stop(); <-done })
	}
	conf := func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{cert}} }
	quiet := log.New(io.Discard, "", 0) // the session's health checks open a connection and say nothing
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client left
		}
		_, _ = w.Write(answer(side, r.Header.Values("x-lane-tag"), body)) // as above
	})
	plain, secure := listen("web"), listen("web-tls")
	h := &http.Server{Handler: web, ReadHeaderTimeout: time.Minute}
	serve(func() error { return h.Serve(plain) }, func() { _ = h.Close() })
	hs := &http.Server{Handler: web, ReadHeaderTimeout: time.Minute, TLSConfig: conf(), ErrorLog: quiet}
	serve(func() error { return hs.ServeTLS(secure, "", "") }, func() { _ = hs.Close() })

	rpc := grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(s); method != echoMethod {
			return status.Error(codes.Unimplemented, method)
		}
		m := &wrapperspb.BytesValue{}
		if err := s.RecvMsg(m); err != nil {
			return err
		}
		md, _ := metadata.FromIncomingContext(s.Context())
		return s.SendMsg(wrapperspb.Bytes(answer(side, md.Get("x-lane-tag"), m.Value)))
	})
	g, gs := grpc.NewServer(rpc), grpc.NewServer(rpc, grpc.Creds(credentials.NewTLS(conf())))
	plainRPC, secureRPC := listen("rpc"), listen("rpc-tls")
	serve(func() error { return g.Serve(plainRPC) }, g.Stop)
	serve(func() error { return gs.Serve(secureRPC) }, gs.Stop)
	return ports
}

// testCertificate is for the hosts, and trusts itself; file holds it as PEM.
func testCertificate(t *testing.T, file string, hosts ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lane test"}, DNSNames: hosts, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
