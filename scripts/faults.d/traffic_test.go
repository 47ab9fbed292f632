//go:build unix

package faults

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// lane of the developer whose instance is called, and another one.
const (
	alice = "dev-alice"
	bob   = "dev-bob"
)

// servedBy says which of the origins has answered.
const servedBy = "X-Served-By"

// origin is a live process behind an instance.
type origin struct {
	name string
	srv  *httptest.Server

	mu    sync.Mutex
	alien []string // what came to a developer's process and was not for it
}

// newOrigin serves as name; of a lane, it takes requests with that tag alone.
func newOrigin(t *testing.T, name, ofLane string) *origin {
	t.Helper()
	o := &origin{name: name}
	o.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tag := r.Header.Get("x-lane-tag"); ofLane != "" && tag != ofLane {
			o.mu.Lock()
			o.alien = append(o.alien, fmt.Sprintf("%s %s tag=%q", r.Method, r.URL, tag))
			o.mu.Unlock()
		}
		w.Header().Set(servedBy, name)
		_, _ = io.WriteString(w, name)
	}))
	t.Cleanup(o.srv.Close)
	return o
}

func (o *origin) addr() string { return strings.TrimPrefix(o.srv.URL, "http://") }

func (o *origin) port() string { return o.addr()[strings.LastIndexByte(o.addr(), ':')+1:] }

// strangers is how many requests came that were not for it.
func (o *origin) strangers() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.alien)
}

// stream is one kind of request, and who is to serve it.
type stream struct {
	name string
	url  string
	host string
	tag  string
	via  string // a proxy
	want string // the origin's name
}

// send makes one request of the stream.
func (s *stream) send(ctx context.Context, c *http.Client) outcome {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return outcome{failed: err.Error()}
	}
	if s.host != "" {
		req.Host = s.host
	}
	if s.tag != "" {
		req.Header.Set("x-lane-tag", s.tag)
	}
	res, err := c.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return outcome{void: true} // the end of the test
		}
		return outcome{failed: err.Error()}
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return outcome{failed: err.Error()}
	}
	by, decision := res.Header.Get(servedBy), res.Header.Get("X-Lane-Decision")
	switch {
	case res.StatusCode != http.StatusOK:
		return outcome{failed: strings.TrimSpace(res.Header.Get("X-Lane-Error") + " " + reason(decision) + " " + res.Status)}
	case by == s.want:
		return outcome{}
	case strings.HasPrefix(decision, "FALLBACK_BASELINE"):
		return outcome{fellBack: reason(decision)}
	default:
		return outcome{misrouted: fmt.Sprintf("to %s: %s", by, decision)}
	}
}

// reason is why a decision was made.
func reason(decision string) string {
	for _, part := range strings.Split(decision, "; ") {
		if r, ok := strings.CutPrefix(part, "reason="); ok {
			return r
		}
	}
	return ""
}

// outcome is what came of one request; the zero value is as it should be.
type outcome struct {
	void                        bool
	failed, misrouted, fellBack string
}

// tally counts what came of the requests.
type tally struct {
	mu        sync.Mutex
	sent      int
	failed    map[string]int // by stream and what went wrong
	misrouted map[string]int
	fellBack  map[string]int
	bad       time.Time // the last request that was not as it should be
}

func newTally() *tally {
	return &tally{failed: map[string]int{}, misrouted: map[string]int{}, fellBack: map[string]int{}}
}

func (t *tally) add(name string, o outcome) {
	if o.void {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	if o == (outcome{}) {
		return
	}
	t.bad = time.Now()
	for what, in := range map[string]map[string]int{o.failed: t.failed, o.misrouted: t.misrouted, o.fellBack: t.fellBack} {
		if what != "" {
			in[name+": "+what]++
		}
	}
}

// count is how many, and which ones.
func count(m map[string]int) (n int, which string) {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		n += m[k]
		parts = append(parts, fmt.Sprintf("%d × %s", m[k], k))
	}
	return n, strings.Join(parts, "; ")
}

// traffic sends requests of every stream, over and over, until stop is called,
// which waits for the last ones.
func traffic(t *testing.T, into *tally, streams []stream) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, s := range streams {
		tr := &http.Transport{Proxy: nil}
		if s.via != "" {
			u, err := url.Parse(s.via)
			if err != nil {
				t.Fatal(err)
			}
			tr.Proxy = http.ProxyURL(u)
		}
		// Far longer than any answer takes: one that does not come is a failure.
		c := &http.Client{Transport: tr, Timeout: 20 * time.Second}
		all.Go(func() {
			defer tr.CloseIdleConnections()
			tick := time.NewTicker(25 * time.Millisecond)
			defer tick.Stop()
			for {
				into.add(s.name, s.send(ctx, c))
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	t.Cleanup(stop)
	return stop
}
