package dev_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lane/pkg/consul/dev"
)

// The passing of time is tested on the embedded registry alone, in a bubble
// where a minute takes nothing; the times are those measured on Consul.

// clock is a registry in a bubble, asked without sockets.
type clock struct {
	t *testing.T
	r *dev.Registry
}

func inTime(t *testing.T, o dev.Options, f func(c *clock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &clock{t, dev.New(o)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.r.Run(ctx) }()
		f(c)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func (c *clock) do(method, path, body string) *httptest.ResponseRecorder {
	c.t.Helper()
	req := httptest.NewRequestWithContext(c.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	w := httptest.NewRecorder()
	c.r.ServeHTTP(w, req)
	return w
}

func (c *clock) put(path, body string) string {
	c.t.Helper()
	w := c.do(http.MethodPut, path, body)
	if w.Code != http.StatusOK {
		c.t.Fatalf("PUT %s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// checks is "status output" of the checks of a service.
func (c *clock) checks(service string) string {
	c.t.Helper()
	var list []struct{ Status, Output string }
	must(c.t, json.Unmarshal(c.do(http.MethodGet, "/v1/health/checks/"+service, "").Body.Bytes(), &list))
	var out []string
	for _, e := range list {
		out = append(out, strings.TrimSpace(e.Status+" "+e.Output))
	}
	return strings.Join(out, "; ")
}

// wait lets d pass and everything that was due happen.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (c *clock) wants(service, want string) {
	c.t.Helper()
	if got := c.checks(service); got != want {
		c.t.Errorf("after %s: checks %q, want %q", time.Since(epoch), got, want)
	}
}

// epoch is when the clock of a bubble starts.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestTTLExpires(t *testing.T) {
	inTime(t, dev.Options{}, func(c *clock) {
		c.put("/v1/agent/service/register", `{"Name":"w","Check":{"TTL":"15s"}}`)
		c.put("/v1/agent/check/pass/service:w?note=up", "")
		wait(14 * time.Second)
		c.wants("w", "passing up")
		c.put("/v1/agent/check/pass/service:w?note=up", "")
		wait(14 * time.Second)
		c.wants("w", "passing up")
		wait(2 * time.Second)
		c.wants("w", "critical TTL expired (last output before timeout follows): up")
		c.put("/v1/agent/check/pass/service:w?note=back", "")
		c.wants("w", "passing back")
	})
}

func TestTTLExpiresWithoutABeat(t *testing.T) {
	inTime(t, dev.Options{}, func(c *clock) {
		c.put("/v1/agent/service/register", `{"Name":"w","Check":{"TTL":"15s","Status":"passing"}}`)
		wait(14 * time.Second)
		c.wants("w", "passing")
		// The same registration again starts the time again.
		c.put("/v1/agent/service/register?replace-existing-checks=true", `{"Name":"w","Check":{"TTL":"15s","Status":"passing"}}`)
		wait(14 * time.Second)
		c.wants("w", "passing")
		wait(2 * time.Second)
		c.wants("w", "critical TTL expired")
	})
}

func TestExpiryWakesAReader(t *testing.T) {
	inTime(t, dev.Options{}, func(c *clock) {
		c.put("/v1/agent/service/register", `{"Name":"w","Check":{"TTL":"15s","Status":"passing"}}`)
		index := c.do(http.MethodGet, "/v1/health/service/w", "").Header().Get("X-Consul-Index")
		w := c.do(http.MethodGet, "/v1/health/service/w?wait=60s&index="+index, "")
		if d := time.Since(epoch); d != 15*time.Second || !strings.Contains(w.Body.String(), "TTL expired") {
			t.Errorf("woke after %s with %s, want 15s and the expiry", d, w.Body)
		}
	})
}

func TestWaitFormats(t *testing.T) {
	for wait, least := range map[string]time.Duration{
		"2s": 2 * time.Second, "300000ms": 5 * time.Minute, "1m30s": 90 * time.Second,
		"": 5 * time.Minute, "0s": 5 * time.Minute, "-1s": 5 * time.Minute, "1h": 10 * time.Minute,
	} {
		t.Run("wait="+wait, func(t *testing.T) {
			inTime(t, dev.Options{}, func(c *clock) {
				// A service's health is answered from a stream, without jitter.
				c.do(http.MethodGet, "/v1/health/service/w?index=1000&wait="+wait, "")
				if d := time.Since(epoch); d != least {
					t.Errorf("health took %s, want %s", d, least)
				}
				start := time.Now()
				c.do(http.MethodGet, "/v1/kv/k?index=1000&wait="+wait, "")
				if d := time.Since(start); d < least || d > least+least/16 {
					t.Errorf("key took %s, want %s and at most a sixteenth more", d, least)
				}
			})
		})
	}
}

func TestNoIndexAnswersAtOnce(t *testing.T) {
	inTime(t, dev.Options{}, func(c *clock) {
		for _, query := range []string{"", "?wait=10s", "?index=0&wait=10s"} {
			c.do(http.MethodGet, "/v1/health/service/w"+query, "")
		}
		if d := time.Since(epoch); d != 0 {
			t.Errorf("took %s, want none", d)
		}
	})
}

func TestCriticalServiceIsRemoved(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after string        // what the client asks for
		every time.Duration // how often the registry looks
		stays time.Duration // after the TTL expired
		gone  time.Duration
	}{
		{"Consul's times, raised to a minute", "1s", 0, 60 * time.Second, 91 * time.Second},
		{"looked at each second", "1s", time.Second, 60 * time.Second, 62 * time.Second},
		{"longer", "5m", time.Second, 299 * time.Second, 302 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inTime(t, dev.Options{ReapEvery: tc.every}, func(c *clock) {
				c.put("/v1/agent/service/register", `{"Name":"w","Check":{"TTL":"15s","Status":"passing","DeregisterCriticalServiceAfter":"`+tc.after+`"}}`)
				wait(15 * time.Second)
				wait(tc.stays)
				c.wants("w", "critical TTL expired")
				wait(tc.gone - tc.stays)
				c.wants("w", "")
				if w := c.do(http.MethodPut, "/v1/agent/check/pass/service:w", ""); w.Code != http.StatusNotFound {
					t.Errorf("beat: %d, want 404", w.Code)
				}
			})
		})
	}
}

func TestCriticalServiceStays(t *testing.T) {
	for _, tc := range []struct{ name, check, then string }{
		{"nothing asks for its removal", `{"TTL":"15s"}`, ""},
		{"it passes again in time", `{"TTL":"15s","DeregisterCriticalServiceAfter":"2m"}`, "/v1/agent/check/pass/service:w"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inTime(t, dev.Options{ReapEvery: time.Second}, func(c *clock) {
				c.put("/v1/agent/service/register", `{"Name":"w","Check":`+tc.check+`}`)
				for range 10 {
					wait(time.Minute)
					if tc.then != "" {
						c.put(tc.then, "")
					}
				}
				if c.checks("w") == "" {
					t.Error("the service is gone")
				}
			})
		})
	}
}

func TestOutputReachesTheCatalogLate(t *testing.T) {
	inTime(t, dev.Options{}, func(c *clock) {
		c.put("/v1/agent/service/register", `{"Name":"w","Check":{"TTL":"1h","Status":"passing"}}`)
		c.put("/v1/agent/check/pass/service:w?note=other", "")
		wait(4 * time.Minute)
		c.wants("w", "passing")
		wait(2 * time.Minute)
		c.wants("w", "passing other")
	})
}

func TestSessionExpires(t *testing.T) {
	session := func(c *clock, body string) string {
		var s struct{ ID string }
		must(c.t, json.Unmarshal([]byte(c.put("/v1/session/create", body)), &s))
		return s.ID
	}
	held := func(c *clock) bool { return c.do(http.MethodGet, "/v1/kv/k", "").Code == http.StatusOK }
	inTime(t, dev.Options{}, func(c *clock) {
		id := session(c, `{"TTL":"10s","Behavior":"delete","LockDelay":"1ms"}`)
		forever := session(c, `{}`)
		c.put("/v1/kv/k?acquire="+id, "v")
		// Twice its TTL, from the last renewal.
		wait(19 * time.Second)
		c.put("/v1/session/renew/"+id, "")
		wait(19 * time.Second)
		if !held(c) {
			t.Error("gone before twice the TTL")
		}
		wait(2 * time.Second)
		if held(c) {
			t.Error("kept after twice the TTL")
		}
		if w := c.do(http.MethodPut, "/v1/session/renew/"+id, ""); w.Code != http.StatusNotFound {
			t.Errorf("renewal of an expired session: %d", w.Code)
		}
		wait(24 * time.Hour)
		if body := c.do(http.MethodGet, "/v1/session/info/"+forever, "").Body.String(); !strings.Contains(body, forever) {
			t.Error("the session without a TTL is gone")
		}
	})
}

func TestLockDelayEnds(t *testing.T) {
	inTime(t, dev.Options{}, func(c *clock) {
		var a, b struct{ ID string }
		must(t, json.Unmarshal([]byte(c.put("/v1/session/create", "")), &a))
		must(t, json.Unmarshal([]byte(c.put("/v1/session/create", "")), &b))
		c.put("/v1/kv/k?acquire="+a.ID, "v")
		c.put("/v1/session/destroy/"+a.ID, "")
		acquire := func() bool {
			ok, err := strconv.ParseBool(strings.TrimSpace(c.put("/v1/kv/k?acquire="+b.ID, "v")))
			must(t, err)
			return ok
		}
		wait(14 * time.Second)
		if acquire() {
			t.Error("locked within the delay")
		}
		wait(2 * time.Second)
		if !acquire() {
			t.Error("not locked after the delay")
		}
	})
}

// A catalog that was changed behind the agent's back is put right.
func TestAgentPutsTheCatalogRight(t *testing.T) {
	inTime(t, dev.Options{}, func(c *clock) {
		c.put("/v1/agent/service/register", `{"Name":"mine","Check":{"TTL":"1h"}}`)
		c.put("/v1/catalog/deregister", `{"Node":"dev","ServiceID":"mine"}`)
		c.put("/v1/catalog/register", `{"Node":"dev","Address":"127.0.0.1","Service":{"Service":"foreign"},"Check":{"Name":"f","ServiceID":"foreign"}}`)
		c.put("/v1/catalog/register", `{"Node":"ext","Address":"10.0.0.9","Service":{"Service":"outside"},"Check":{"Name":"o","ServiceID":"outside"}}`)
		c.wants("mine", "")
		c.wants("foreign", "critical")
		wait(61 * time.Second)
		c.wants("mine", "critical")
		c.wants("foreign", "")
		c.wants("outside", "critical")
	})
}

func TestEndOfRunLetsReadersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{t, dev.New(dev.Options{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.r.Run(ctx) }()
		answered := make(chan int, 1)
		go func() { answered <- c.do(http.MethodGet, "/v1/kv/k?index=1000", "").Code }()
		synctest.Wait()
		cancel()
		must(t, <-ended)
		if code := <-answered; code != http.StatusNotFound || time.Since(epoch) != 0 {
			t.Errorf("code %d after %s, want 404 at once", code, time.Since(epoch))
		}
		if err := c.r.Run(t.Context()); err == nil {
			t.Error("a second Run gave no error")
		}
	})
}
