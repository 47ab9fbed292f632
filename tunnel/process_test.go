package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asAgent) != "":
		agentProcess()
	case os.Getenv(asRelay) != "":
		relayProcess()
	default:
		// net/http's own: half a second between its last word to who sends too much, and the end.
		goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
	}
}

func agentProcess() {
	addr, pin, _ := strings.Cut(os.Getenv(asAgent), " ")
	a, err := newAgent(AgentConfig{
		URL: "wss://" + addr, Pin: pin, Install: "install-1", Host: "laptop", Handle: echo,
		Token: func(context.Context) (string, error) { return "alice/1", nil },
	}, defaults)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	go func() { _, _ = a.Claim(ctx, orders(TCP)) }()
	if err := a.Run(ctx); err != nil {
		panic(err)
	}
}

func program(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// relayProcess is a relay that a test kills, with the certificate in that
// directory. It prints where it listens.
func relayProcess() {
	dir := os.Getenv(asRelay)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	r, err := newRelay(RelayConfig{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Authority: newAuthority()}, defaults)
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	if err := r.Serve(ctx, l); err != nil {
		panic(err)
	}
}

// save writes a certificate where relayProcess looks for it.
func save(t testing.TB, c tls.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
