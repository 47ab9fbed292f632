package whitelist

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// In these tests the clock stands still while Redis works, however slow the
// machine: nothing is late.

func TestSetOfARoute(t *testing.T) {
	s := startRedis(t)
	s.cli(t, "SADD", "gateway:canary:buyer-api", "buyer-123", "Jörg Müller")
	s.cli(t, "SADD", "team:lanes:buyer-api", "buyer-9")
	synctest.Test(t, func(t *testing.T) {
		w, other := s.open(t, RedisOptions{}), s.open(t, RedisOptions{Prefix: "team:lanes:"})
		for _, c := range []struct {
			w         *Whitelist
			route, id string
			want      bool
		}{
			{w, "buyer-api", "buyer-123", true},
			{w, "buyer-api", "Jörg Müller", true},
			{w, "buyer-api", "BUYER-123", false},
			{w, "buyer-api", "buyer-9", false},
			{w, "seller-api", "buyer-123", false},
			{other, "buyer-api", "buyer-9", true},
			{other, "buyer-api", "buyer-123", false},
		} {
			if got := c.w.Member(t.Context(), c.route, c.id); got != c.want {
				t.Errorf("%s on %s: %v, want %v", c.id, c.route, got, c.want)
			}
		}
		before := s.asked(t)
		if before != 7 {
			t.Errorf("asked %d times, want 7", before)
		}
		for _, id := range []string{"", "  "} {
			if w.Member(t.Context(), "buyer-api", id) {
				t.Errorf("%q is a member", id)
			}
		}
		if n := s.asked(t); n != before {
			t.Errorf("asked %d times for no id", n-before)
		}
		if got := w.Stats(); got.Errors != 0 || got.Unknown != 0 {
			t.Errorf("counted %+v", got)
		}
	})
}

func TestTwoInstancesFollowRedisCLI(t *testing.T) {
	s := startRedis(t)
	synctest.Test(t, func(t *testing.T) {
		one, two := s.open(t, RedisOptions{}), s.open(t, RedisOptions{})
		both := func(when string, want bool) {
			t.Helper()
			for i, w := range []*Whitelist{one, two} {
				if got := w.Member(t.Context(), "shop", "ann"); got != want {
					t.Errorf("%s: gateway %d: %v, want %v", when, i+1, got, want)
				}
			}
		}
		both("before", false)
		for _, step := range []struct {
			command string
			want    bool
		}{
			{"SADD", true}, {"SREM", false}, {"SADD", true}, {"DEL", false},
		} {
			args := []string{step.command, "gateway:canary:shop", "ann"}
			if step.command == "DEL" {
				args = args[:2]
			}
			s.cli(t, args...)
			both("just after "+step.command, !step.want) // remembered: else the next line proves nothing
			time.Sleep(remembered)
			both("10 s after "+step.command, step.want)
		}
	})
}

// Nobody is colored ten seconds after DEL, whenever he was asked for before it.
func TestNobodyIsAMemberTenSecondsAfterDEL(t *testing.T) {
	s := startRedis(t)
	synctest.Test(t, func(t *testing.T) {
		w := s.open(t, RedisOptions{})
		users := make([]string, 50)
		for i := range users {
			users[i] = fmt.Sprint("user-", i)
		}
		s.cli(t, append([]string{"SADD", "gateway:canary:shop"}, users...)...)
		for _, u := range users {
			member(t, w, u, true)
			time.Sleep(100 * time.Millisecond)
		}
		s.cli(t, "DEL", "gateway:canary:shop")
		begin := time.Now()
		colored := 0
		for time.Since(begin) < remembered {
			for _, u := range users {
				if w.Member(t.Context(), "shop", u) {
					colored++
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
		if colored == 0 {
			t.Error("nobody was remembered")
		}
		for _, u := range users {
			member(t, w, u, false)
		}
	})
}

func TestAHotUserIsLookedUpOnce(t *testing.T) {
	s := startRedis(t)
	s.cli(t, "SADD", "gateway:canary:shop", "ann")
	synctest.Test(t, func(t *testing.T) {
		w := s.open(t, RedisOptions{})
		for range 100 {
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() { member(t, w, "ann", true) })
			}
			all.Wait()
			time.Sleep(50 * time.Millisecond)
		}
	})
	if n := s.asked(t); n != 1 {
		t.Errorf("Redis was asked %d times for 1,000 requests in 5 s, want 1", n)
	}
}

func TestKeyOfAnotherType(t *testing.T) {
	s := startRedis(t)
	s.cli(t, "SET", "gateway:canary:broken", "ann")
	s.cli(t, "SADD", "gateway:canary:shop", "ann")
	synctest.Test(t, func(t *testing.T) {
		w := s.open(t, RedisOptions{})
		if w.Member(t.Context(), "broken", "ann") {
			t.Error("a member of no set")
		}
		member(t, w, "ann", true)
		if got, want := w.Stats(), (Stats{Lookups: 2, Errors: 1, Unknown: 1}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		failures(t, w, Broken, 1)
	})
}

func TestPasswordAndDatabase(t *testing.T) {
	s := startRedis(t)
	s.cli(t, "-n", "3", "SADD", "gateway:canary:shop", "ann")
	s.cli(t, "CONFIG", "SET", "requirepass", "s3cret")
	at := "127.0.0.1:" + s.port
	synctest.Test(t, func(t *testing.T) {
		member(t, s.open(t, RedisOptions{URL: "redis://:s3cret@" + at + "/3"}), "ann", true)
		member(t, s.open(t, RedisOptions{URL: "redis://:s3cret@" + at}), "ann", false)
		for _, url := range []string{"redis://:wrong@" + at + "/3", "redis://" + at + "/3"} {
			w := s.open(t, RedisOptions{URL: url})
			member(t, w, "ann", false)
			if n := w.Stats().Errors; n != 1 {
				t.Errorf("%d errors with the wrong password, want 1", n)
			}
			failures(t, w, Denied, 1)
		}
	})
}

func TestURLThatIsNone(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:6379", "http://127.0.0.1", "redis://h/x", "redis://u:p#s3cret@h", "redis://:s3cret@h:port"} {
		_, err := Redis(RedisOptions{URL: url})
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "redis://") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// The program's own proxy may be in its environment.
func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	s := startRedis(t)
	s.cli(t, "SADD", "gateway:canary:shop", "ann")
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan struct{})
	go func() {
		defer close(called)
		if c, err := proxy.Accept(); err == nil {
			_ = c.Close()
			t.Error("the proxy was called")
		}
	}()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://"+proxy.Addr().String())
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	synctest.Test(t, func(t *testing.T) {
		member(t, s.open(t, RedisOptions{}), "ann", true)
	})
	if err := proxy.Close(); err != nil {
		t.Error(err)
	}
	<-called
}

func TestTLSIsVerified(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for name, c := range map[string]struct {
		conf *tls.Config
		want bool
	}{
		"its root is known":    {&tls.Config{RootCAs: roots, ServerName: "example.com"}, true},
		"under another name":   {&tls.Config{RootCAs: roots, ServerName: "example.org"}, false},
		"its root is not ours": {&tls.Config{RootCAs: x509.NewCertPool(), ServerName: "example.com"}, false},
	} {
		conn, err := dialer(c.conf)(t.Context(), "tcp", server.Listener.Addr().String())
		if (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
}
