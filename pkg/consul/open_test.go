package consul_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

func env(kv ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i+1 < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return func(k string) string { return m[k] }
}

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "http://127.0.0.1:8500",
		"10.0.0.1:8500":                 "http://10.0.0.1:8500",
		"consul.test:80":                "http://consul.test:80",
		"http://consul.test":            "http://consul.test:80",
		"https://consul.test":           "https://consul.test:443",
		"https://consul.test:8501/pre/": "https://consul.test:8501/pre",
		"[::1]:8500":                    "http://[::1]:8500",
		"unix:///var/run/consul.sock":   "unix:///var/run/consul.sock",
	} {
		c, err := consul.Open(consul.Config{Getenv: env("CONSUL_HTTP_ADDR", in)})
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if c.Address() != want {
			t.Errorf("%q: %q, want %q", in, c.Address(), want)
		}
	}
	for _, in := range []string{
		"consul.test", "http://", "ftp://x:1", "unix://", ":8500", "a:b", "a:0", "a:70000", "http://user:secret@a:1", "a:1?x=y", "a b:1",
	} {
		_, err := consul.Open(consul.Config{Address: in, Getenv: env()})
		var invalid *consul.ValidationError
		if !errors.As(err, &invalid) || invalid.Field != "registry address" {
			t.Errorf("%q: %v", in, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("shows a password: %v", err)
		}
	}
}

func TestSettingsComeFromConsulsOwnVariables(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = w.Write([]byte(`"leader:8300"`))
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	for _, c := range []struct {
		name       string
		cfg        consul.Config
		env        []string
		token, url string
	}{
		{"nothing", consul.Config{}, nil, "", ""},
		{"token", consul.Config{}, []string{"CONSUL_HTTP_TOKEN", "t"}, "t", ""},
		{"token file before token", consul.Config{}, []string{"CONSUL_HTTP_TOKEN", "t", "CONSUL_HTTP_TOKEN_FILE", file}, "from-file", ""},
		{"own file before both", consul.Config{TokenFile: file}, []string{"CONSUL_HTTP_TOKEN", "t"}, "from-file", ""},
		{"own token before both", consul.Config{Token: "own"}, []string{"CONSUL_HTTP_TOKEN", "t", "CONSUL_HTTP_TOKEN_FILE", file}, "own", ""},
		{"namespace and datacenter", consul.Config{Datacenter: "dc9"}, []string{"CONSUL_NAMESPACE", "team"}, "", "dc=dc9&ns=team"},
		{"own namespace", consul.Config{Namespace: "mine"}, []string{"CONSUL_NAMESPACE", "team"}, "", "ns=mine"},
	} {
		c.env = append(c.env, "CONSUL_HTTP_ADDR", addr, "CONSUL_HTTP_AUTH", "u:p")
		c.cfg.Getenv = env(c.env...)
		cl, err := consul.Open(c.cfg)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if err := cl.Ping(deadline(t)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		cl.Close()
		if user, pass, _ := got.BasicAuth(); user != "u" || pass != "p" {
			t.Errorf("%s: no basic auth", c.name)
		}
		if token := got.Header.Get("X-Consul-Token"); token != c.token {
			t.Errorf("%s: token %q, want %q", c.name, token, c.token)
		}
		if got.URL.RawQuery != c.url {
			t.Errorf("%s: query %q, want %q", c.name, got.URL.RawQuery, c.url)
		}
	}
	for name, c := range map[string][]string{
		"CONSUL_HTTP_TOKEN_FILE":      {"CONSUL_HTTP_TOKEN_FILE", filepath.Join(dir, "none")},
		"CONSUL_HTTP_SSL":             {"CONSUL_HTTP_SSL", "perhaps"},
		"CONSUL_HTTP_SSL_VERIFY":      {"CONSUL_HTTP_SSL_VERIFY", "perhaps"},
		"the registry's TLS settings": {"CONSUL_CACERT", filepath.Join(dir, "none")},
	} {
		var invalid *consul.ValidationError
		if _, err := consul.Open(consul.Config{Getenv: env(c...)}); !errors.As(err, &invalid) || invalid.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	ssl, err := consul.Open(consul.Config{Address: "http://a:1", Getenv: env("CONSUL_HTTP_SSL", "true")})
	if err != nil || ssl.Address() != "https://a:1" {
		t.Errorf("never back to http: %v %v", ssl, err)
	}
}

func TestTheEnvironmentsProxyIsNeverUsed(t *testing.T) {
	proxied := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proxied <- r.URL.String() }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	// Not a loopback address: Go itself exempts those.
	c, err := consul.Open(consul.Config{Address: "consul.invalid:8500", Getenv: env()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var away *consul.UnreachableError
	if err := c.Ping(deadline(t)); !errors.As(err, &away) {
		t.Errorf("%v", err)
	}
	select {
	case u := <-proxied:
		t.Errorf("went through the proxy: %s", u)
	default:
	}
}

func TestTLSIsVerified(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`"l"`)) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains about the refused handshake
	srv.StartTLS()
	defer srv.Close()
	for verify, ok := range map[string]bool{"": false, "false": true} {
		c, err := consul.Open(consul.Config{Address: srv.URL, Getenv: env("CONSUL_HTTP_SSL_VERIFY", verify)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Ping(deadline(t)); (err == nil) != ok {
			t.Errorf("verify %q: %v", verify, err)
		}
		c.Close()
	}
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "lane") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	sock := filepath.Join(dir, "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`"l"`)) }))
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	defer srv.Close()
	c := open(t, "unix://"+sock)
	if err := c.Ping(deadline(t)); err != nil {
		t.Error(err)
	}
	if ip, err := c.LocalIP(deadline(t)); err != nil || !ip.IsLoopback() {
		t.Errorf("%v %v", ip, err)
	}
}

func TestPingTellsWhatIsWrong(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		if err := c.Ping(deadline(t)); err != nil {
			t.Error(err)
		}
		if ip, err := c.LocalIP(deadline(t)); err != nil || ip.String() != "127.0.0.1" {
			t.Errorf("%v %v", ip, err)
		}
		if name, err := c.NodeName(deadline(t)); err != nil || name == "" {
			t.Errorf("%q %v", name, err)
		}
		f := newFront(t, addr)
		c = open(t, f.addr)
		var leaderless *consul.NoLeaderError
		f.set(answers("/v1/status/leader", 200, `""`))
		if err := c.Ping(deadline(t)); !errors.As(err, &leaderless) {
			t.Errorf("%v", err)
		}
		var away *consul.UnreachableError
		for body, code := range map[string]int{"<html>router login</html>": 200, "<!DOCTYPE html>\n<title>none</title>\nhere": 404, "<html>away</html>": 502, `{"error":"no such page"}`: 404, "what?": 400} {
			f.set(answers("/v1/status/leader", code, body))
			if err := c.Ping(deadline(t)); !errors.As(err, &away) || !strings.Contains(err.Error(), " is no Consul (") ||
				strings.ContainsAny(err.Error(), "\n") || !strings.Contains(err.Error(), "set CONSUL_HTTP_ADDR") ||
				!strings.HasPrefix(away.Fact(), "what answers at ") || strings.Contains(away.Fact(), "set CONSUL_HTTP_ADDR") {
				t.Errorf("%d %s: %v; %s", code, body, err, away.Fact())
			}
		}
		f.set(answers("/v1/status/leader", 400, "Client sent an HTTP request to an HTTPS server.\n"))
		if err := c.Ping(deadline(t)); !errors.As(err, &away) || !strings.Contains(err.Error(), "wants TLS: set CONSUL_HTTP_ADDR to https://"+strings.TrimPrefix(f.addr, "http://")) ||
			!strings.HasSuffix(away.Fact(), " wants TLS") {
			t.Errorf("%v; %s", err, away.Fact())
		}
		// What a Consul says of itself stays what it is.
		var denied *consul.DeniedError
		var answer *consul.AnswerError
		f.set(answers("/v1/status/leader", 403, "Permission denied"))
		if err := c.Ping(deadline(t)); !errors.As(err, &denied) || errors.As(err, &away) {
			t.Errorf("%v", err)
		}
		f.set(answers("/v1/status/leader", 429, "Your IP is issuing too many concurrent connections"))
		if err := c.Ping(deadline(t)); !errors.As(err, &answer) || errors.As(err, &away) {
			t.Errorf("%v", err)
		}
		f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if err := c.Ping(ctx); !errors.As(err, &away) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
		if err := c.Ping(ctx); errors.As(err, &away) || !errors.Is(err, context.Canceled) {
			t.Errorf("giving up is no failure of the registry: %v", err)
		}
	})
	var away *consul.UnreachableError
	c := open(t, closedPort(t))
	if err := c.Ping(deadline(t)); !errors.As(err, &away) || !strings.Contains(err.Error(), "CONSUL_HTTP_ADDR") {
		t.Errorf("%v", err)
	}
	if _, err := c.LocalIP(deadline(t)); !errors.As(err, &away) {
		t.Errorf("%v", err)
	}
}

func TestANamespaceOnACommunityServerIsExplained(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c, err := consul.Open(consul.Config{Address: addr, Namespace: "team", Getenv: env()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Claims(deadline(t), "")
		var answer *consul.AnswerError
		if !errors.As(err, &answer) || answer.Status != 400 || !strings.Contains(err.Error(), `namespace "team"`) {
			t.Errorf("%v", err)
		}
	})
}
