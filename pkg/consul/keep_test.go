package consul_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

// said is a log that a test reads.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *said) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.buf.String(), what)
}

func (s *said) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

// spoilFirst spoils the first n requests of a method and a path.
func spoilFirst(n int, method, path string, spoil http.HandlerFunc) (spoiler func(http.ResponseWriter, *http.Request, http.Handler), spoiled func() int) {
	var mu sync.Mutex
	seen := 0
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			mu.Lock()
			hit := r.Method == method && strings.HasPrefix(r.URL.Path, path) && seen < n
			if hit {
				seen++
			}
			mu.Unlock()
			if hit {
				spoil(w, r)
				return
			}
			next.ServeHTTP(w, r)
		}, func() int {
			mu.Lock()
			defer mu.Unlock()
			return seen
		}
}

// A registry that breaks off what an entry is made with, at any step, is asked
// again: who serves goes on to serve.
func TestAnEntryIsKeptOverARegistryThatBreaksOff(t *testing.T) {
	reset := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	cut := func(w http.ResponseWriter, _ *http.Request) { breakOff(w) }
	fails := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "No cluster leader", code) }
	}
	for name, c := range map[string]struct {
		method, path string
		spoil        http.HandlerFunc
	}{
		"its registration is reset":       {"PUT", "/v1/agent/service/register", reset},
		"its registration is cut":         {"PUT", "/v1/agent/service/register", cut},
		"its registration fails":          {"PUT", "/v1/agent/service/register", fails(500)},
		"a front has no agent behind":     {"PUT", "/v1/agent/service/register", fails(503)},
		"its beat is reset":               {"PUT", "/v1/agent/check/update/", reset},
		"the agent has forgotten it":      {"PUT", "/v1/agent/check/update/", fails(404)},
		"what it is read back by is cut":  {"GET", "/v1/health/service/", cut},
		"what it is read back by fails":   {"GET", "/v1/health/service/", fails(500)},
		"what it is read back by resets":  {"GET", "/v1/health/service/", reset},
		"too many connections are opened": {"PUT", "/v1/agent/service/register", fails(429)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			consultest.Each(t, func(t *testing.T, addr string) {
				f := newFront(t, addr)
				spoil, spoiled := spoilFirst(3, c.method, c.path, c.spoil)
				f.set(spoil)
				var log said
				service := unique("orders")
				h := open(t, f.addr).NewHold(registration("dev-alice", service), consul.HoldOptions{App: true, Beat: 20 * time.Millisecond, Log: log.logger()})
				background(t, h.Keep)
				select {
				case <-h.Tried(): // it is told by then, and tried again
					if log.count("not in the registry yet") != 1 {
						t.Error("it goes on, and has not told why")
					}
				case <-deadline(t).Done():
					t.Fatal("its first try has no end")
				}
				select {
				case <-h.Shown():
				case <-deadline(t).Done():
					t.Fatal("it never came to be in the registry")
				}
				if n := spoiled(); n != 3 {
					t.Errorf("%d requests were spoiled: nothing was tried", n)
				}
				eventually(t, "it is confirmed", func() bool { ok, err := h.State(); return ok && err == nil })
				if got := of(t, open(t, addr), "dev-alice", service); len(got) != 1 {
					t.Errorf("%+v", got)
				}
				eventually(t, "it is told", func() bool { return log.count("it is in the registry now") == 1 })
				if n := log.count("not in the registry yet"); n != 1 {
					t.Errorf("told %d times", n)
				}
				f.set(nil)
				if err := h.Deregister(deadline(t)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What only somebody else can mend ends it, and says what.
func TestAnEntryThatIsRefusedIsNotTriedAgain(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	for name, code := range map[string]int{"denied": 403, "malformed": 400} {
		f.set(answers("/v1/agent/service/register", code, "Permission denied"))
		f.requests()
		h := open(t, f.addr).NewHold(registration("dev-alice", unique("orders")), consul.HoldOptions{App: true, Beat: 20 * time.Millisecond})
		err := h.Keep(deadline(t))
		var denied *consul.DeniedError
		if err == nil || errors.As(err, &denied) != (code == 403) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(f.requests()); n != 1 {
			t.Errorf("%s: %d requests", name, n)
		}
		select {
		case <-h.Tried():
			t.Errorf("%s: it goes on", name)
		default:
		}
	}
	bad := registration("dev-alice", unique("orders"))
	bad.Port = 0
	var invalid *consul.ValidationError
	if err := open(t, f.addr).NewHold(bad, consul.HoldOptions{}).Keep(deadline(t)); !errors.As(err, &invalid) {
		t.Error(err)
	}
}

// Its end is no failure, whatever it is doing.
func TestAnEntryEndsWhileItIsTried(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	f.cut()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := open(t, f.addr).NewHold(registration("dev-alice", unique("orders")), consul.HoldOptions{App: true, Beat: 20 * time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- h.Keep(ctx) }()
	eventually(t, "it has tried twice", func() bool { _, err := h.State(); return err != nil })
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-deadline(t).Done():
		t.Fatal("it does not end")
	}
	select {
	case <-h.Shown():
		t.Error("shown by nobody")
	default:
	}
}
