package tunnel

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/tunnel/wiretest"
)

// connectProxy is an HTTP proxy that knows CONNECT and asks for a password, if it
// has one. open, if not nil, opens TLS.
func connectProxy(t testing.TB, password string, open *tls.Config, idle time.Duration) (string, *atomic.Int64) {
	t.Helper()
	var used atomic.Int64
	addr := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		want := "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+password))
		if password != "" && req.Header.Get("Proxy-Authorization") != want {
			http.Error(w, "who are you", http.StatusProxyAuthRequired)
			return
		}
		if req.Method != http.MethodConnect {
			http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
			return
		}
		if req.Header.Get("Authorization") != "" {
			t.Error("the proxy got the token")
		}
		used.Add(1)
		up, err := wiretest.New(req.Host, wiretest.Config{Idle: idle})
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Close()
		b, err := net.Dial("tcp", up.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		a, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(a, "HTTP/1.1 200 OK\r\n\r\n")
		if rw.Reader.Buffered() > 0 {
			t.Error("the client did not wait")
		}
		if open != nil {
			a = tls.Server(a, open)
		}
		_ = Join(t.Context(), a, b)
	}))
	return addr, &used
}

func TestProxies(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	run := func(t *testing.T, proxy string, change func(*AgentConfig)) *testAgent {
		u, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		return startAgent(t, quick(), r, func(c *AgentConfig) {
			c.Proxy, c.Handle = u, echo
			if change != nil {
				change(c)
			}
		})
	}
	t.Run("CONNECT with a password", func(t *testing.T) {
		addr, used := connectProxy(t, "secret", nil, 0)
		a := run(t, "http://alice:secret@"+addr, nil)
		a.claim(t, orders(TCP))
		r.echoes(t)
		if used.Load() != 2 {
			t.Errorf("%d connections", used.Load())
		}
		a.stop()
	})
	t.Run("CONNECT refused", func(t *testing.T) {
		addr, used := connectProxy(t, "secret", nil, 0)
		a := run(t, "http://alice:wrong@"+addr, nil)
		err := <-a.ended
		var pe *ProxyError
		if !errors.As(err, &pe) || !strings.HasPrefix(pe.Status, "407") || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%v", err)
		}
		if used.Load() != 0 {
			t.Error("it was used")
		}
	})
	t.Run("a proxy that opens TLS", func(t *testing.T) {
		corp, pool := certificate(t, "Example Corp Web Gateway")
		addr, _ := connectProxy(t, "", &tls.Config{Certificates: []tls.Certificate{corp}}, 0)
		a := run(t, "http://"+addr, nil)
		err := <-a.ended
		var ce *CertificateError
		if !errors.As(err, &ce) || ce.Pinned || !strings.Contains(ce.Issuer, "Example Corp Web Gateway") {
			t.Fatalf("%v", err)
		}
		for _, part := range []string{"Example Corp Web Gateway", "opens TLS", r.addr, "trust that issuer"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is missing in: %v", part, err)
			}
		}
		a = run(t, "http://"+addr, func(c *AgentConfig) { c.Pin = r.pin })
		if err := <-a.ended; !errors.As(err, &ce) || !ce.Pinned || !strings.Contains(err.Error(), "Example Corp Web Gateway") {
			t.Errorf("%v", err)
		}
		_ = pool
	})
	t.Run("a pinned certificate of another name", func(t *testing.T) {
		a := startAgent(t, quick(), r, func(c *AgentConfig) {
			_, port, _ := net.SplitHostPort(r.addr)
			c.URL, c.Pin, c.Roots, c.Handle = "wss://localhost:"+port, r.pin, nil, echo
		})
		a.claim(t, orders(TCP))
		r.echoes(t)
		a.stop()
	})
	t.Run("a proxy that closes what is idle", func(t *testing.T) {
		// The pings come every 5 s; the proxies that are known wait 60 s.
		tm := quick()
		tm.beat = 200 * time.Millisecond
		tm.write = patience
		r := startRelay(t, tm, nil)
		addr, used := connectProxy(t, "", nil, 4*time.Second)
		u, _ := url.Parse("http://" + addr)
		a := startAgent(t, tm, r, func(c *AgentConfig) { c.Proxy, c.Handle = u, echo })
		a.claim(t, orders(TCP))
		if !pause(t, 6*time.Second) {
			return
		}
		r.echoes(t)
		if used.Load() != 2 {
			t.Errorf("%d connections", used.Load())
		}
		a.stop()
	})
}

// The relay's certificate is looked at each time; what could be a captive portal
// after a sleep does not end an agent that has been connected.
func TestACertificateThatChanges(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	other := startRelay(t, quick(), nil) // another certificate
	w := wire1(t, r.addr, wiretest.Config{})
	a := through(t, quick(), r, w, nil)
	a.want(t, Connected)
	w.To(other.addr)
	w.Cut()
	e := a.want(t, Retrying)
	var ce *CertificateError
	if !errors.As(e.Err, &ce) {
		t.Errorf("%v", e.Err)
	}
	w.To(r.addr)
	a.want(t, Connected)
	if len(other.Links()) != 0 {
		t.Error("linked without trust")
	}
}

// A certificate that is not trusted says which of the reasons it is: what to do differs.
func TestWhyACertificateIsNotTrusted(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	_, port, _ := net.SplitHostPort(r.addr)
	ended, roots := certificateUntil(t, "a relay", time.Now().Add(-time.Minute))
	old := startRelay(t, quick(), func(c *RelayConfig) { c.TLS.Certificates[0] = ended })
	for name, c := range map[string]struct {
		change    func(*AgentConfig)
		name, now bool
	}{
		"another name":      {func(c *AgentConfig) { c.URL = "wss://localhost:" + port }, true, false},
		"an authority":      {func(c *AgentConfig) { c.Roots = x509.NewCertPool() }, false, false},
		"not valid now":     {func(c *AgentConfig) { c.URL, c.Roots = "wss://"+old.addr, roots }, false, true},
		"another than that": {func(c *AgentConfig) { c.Pin = "sha256:00" }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t, quick(), r, c.change)
			var ce *CertificateError
			if err := <-a.ended; !errors.As(err, &ce) || (ce.OtherName() != "") != c.name || (ce.NotNow() != "") != c.now || ce.Pinned != (name == "another than that") {
				t.Errorf("%v: %q %q", err, ce.OtherName(), ce.NotNow())
			}
		})
	}
}
