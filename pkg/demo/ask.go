package demo

import (
	"bytes"
	"context"
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
)

func mkdir(dir string) error { return os.Mkdir(dir, 0o700) }

// caller sends requests: straight, as a browser does, or through a session's proxy,
// each with a trace id of its own.
type caller struct {
	t     *http.Transport
	asked *atomic.Uint64 // shared, so that no two ids are one; nil sends none
}

func newCaller(asked *atomic.Uint64, proxy *url.URL) *caller {
	t := &http.Transport{MaxIdleConnsPerHost: 8}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return &caller{t: t, asked: asked}
}

func (c *caller) close() { c.t.CloseIdleConnections() }

// get asks for a URL, with headers as pairs of a name and a value. An empty value
// writes none.
func (c *caller) get(ctx context.Context, target string, headers ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] != "" {
			req.Header[headers[i]] = []string{headers[i+1]}
		}
	}
	id := ""
	if c.asked != nil {
		id = fmt.Sprintf("demo-%d", c.asked.Add(1))
		req.Header[passedOn] = []string{id}
	}
	res, err := c.t.RoundTrip(req)
	if err != nil {
		return answer{}, fmt.Errorf("GET %s: %w", target, err)
	}
	a := read(res)
	a.Asked = id
	return a, nil
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

// picture is everything that the registry holds, but for clocks and indexes, and
// for the rules and switches, which are everybody's.
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
		if strings.HasPrefix(k.Key, "lane/rules/") || strings.HasPrefix(k.Key, "lane/switches/") {
			continue
		}
		lines = append(lines, "key "+k.Key+" "+k.Session)
	}
	for _, s := range sessions {
		lines = append(lines, "session "+s.ID+" "+s.Name)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}
