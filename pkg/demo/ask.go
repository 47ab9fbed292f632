package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lane/pkg/lane"
)

func mkdir(dir string) error { return os.Mkdir(dir, 0o700) }

// caller sends requests, through a session's proxy or straight. Each has a trace
// of its own.
type caller struct {
	t     *http.Transport
	asked *atomic.Uint64 // shared, so that no two traces are one
}

func newCaller(asked *atomic.Uint64, proxy *url.URL) *caller {
	t := &http.Transport{MaxIdleConnsPerHost: 8}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return &caller{t: t, asked: asked}
}

func (c *caller) close() { c.t.CloseIdleConnections() }

// get asks for a URL; tag is written as it is, "" writes none.
func (c *caller) get(ctx context.Context, target, tag string) (answer, error) {
	h := http.Header{}
	if tag != "" {
		h[lane.HeaderTag] = []string{tag}
	}
	return c.with(ctx, target, h)
}

func (c *caller) with(ctx context.Context, target string, h http.Header) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header = h
	id := fmt.Sprintf("demo-%d", c.asked.Add(1))
	sum := sha256.Sum256([]byte(id)) // looks like a trace's ids, and is the same each time
	h["Traceparent"] = []string{fmt.Sprintf("00-%x-%x-01", sum[:16], sum[16:24])}
	h["X-Request-Id"] = []string{id}
	res, err := c.t.RoundTrip(req)
	if err != nil {
		return answer{}, fmt.Errorf("GET %s: %w", target, err)
	}
	return read(res), nil
}

// outside is a host that is no service: it keeps what it was sent.
type outside struct {
	addr string

	mu   sync.Mutex
	last http.Header
}

func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.last = r.Header.Clone()
	o.mu.Unlock()
	_, _ = io.WriteString(w, "somebody else's host\n") // the caller has gone away
}

func (o *outside) got() http.Header {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// register puts a service of the baseline into the registry as any deployment
// would: through the registry's API, with no word of lanes.
func (w *World) register(ctx context.Context, s *service) error {
	host, port, _ := strings.Cut(s.addr, ":")
	return w.api(ctx, http.MethodPut, "/v1/agent/service/register",
		map[string]any{"ID": s.name + "-1", "Name": s.name, "Address": host, "Port": json.Number(port)}, nil)
}

// api makes one request to the registry's API.
func (w *World) api(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, w.address+path, &body)
	if err != nil {
		return err
	}
	res, err := w.people.t.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return fmt.Errorf("registry: %w", err)
	case res.StatusCode == http.StatusNotFound && out != nil:
		return nil // no such key is an answer
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("registry: %s %s: %s: %s", method, path, res.Status, text)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// picture is everything that the registry holds, but for clocks and indexes.
func (w *World) picture(ctx context.Context) (string, error) {
	var services map[string]struct {
		Service, Address string
		Port             int
		Meta             map[string]string
	}
	var checks map[string]struct{ ServiceID string }
	var keys []struct{ Key, Session string }
	var sessions []struct{ ID, Name string }
	for path, out := range map[string]any{"/v1/agent/services": &services, "/v1/agent/checks": &checks,
		"/v1/kv/?recurse": &keys, "/v1/session/list": &sessions} {
		if err := w.api(ctx, http.MethodGet, path, nil, out); err != nil {
			return "", err
		}
	}
	var lines []string
	for id, s := range services {
		lines = append(lines, fmt.Sprintf("service %s %s %s:%d %v", id, s.Service, s.Address, s.Port, s.Meta))
	}
	for id, c := range checks {
		lines = append(lines, "check "+id+" "+c.ServiceID)
	}
	for _, k := range keys {
		lines = append(lines, "key "+k.Key+" "+k.Session)
	}
	for _, s := range sessions {
		lines = append(lines, "session "+s.ID+" "+s.Name)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}
