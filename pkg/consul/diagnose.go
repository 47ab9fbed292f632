package consul

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// raw makes one call for which the client library has no method, or of whose answer it
// shows no head.
func (c *Client) raw(ctx context.Context, by http.RoundTripper, method, path string, in, out any) (http.Header, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	host := c.hostport
	if c.socket != "" {
		host = "localhost"
	}
	req, err := http.NewRequestWithContext(ctx, method, c.scheme+"://"+host+c.prefix+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("X-Consul-Token", c.token)
	}
	if c.basic != nil {
		req.SetBasicAuth(c.basic.Username, c.basic.Password)
	}
	res, err := (&http.Client{Transport: by}).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, api.StatusError{Code: res.StatusCode, Body: strings.TrimSpace(string(b))}
	}
	return res.Header, json.Unmarshal(b, out)
}

// Leader returns the leader's address, empty when the agent answers without one.
func (c *Client) Leader(ctx context.Context) (string, error) { return c.leader(ctx) }

// Version is the version of the agent that answers.
func (c *Client) Version(ctx context.Context) (string, error) {
	self, err := c.self(ctx)
	return self.Version, err
}

// NodeNames are the names of the agents that answer on n new connections.
func (c *Client) NodeNames(ctx context.Context, n int) (nodes []string, err error) {
	fresh := c.transport.Clone()
	fresh.DisableKeepAlives = true
	for range n {
		var out struct{ Config agent }
		err := c.do(ctx, "ask the agent about itself", `agent:read`, func(ctx context.Context) error {
			_, err := c.raw(ctx, fresh, http.MethodGet, "/v1/agent/self", nil, &out)
			return err
		})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, out.Config.NodeName)
	}
	return nodes, nil
}

// Clock is what the agent's clock says, in whole seconds; zero if it does not say.
func (c *Client) Clock(ctx context.Context) (time.Time, error) {
	var head http.Header
	err := c.do(ctx, "ask for the agent's time", "nothing", func(ctx context.Context) (err error) {
		var leader string
		head, err = c.raw(ctx, c.transport, http.MethodGet, "/v1/status/leader", nil, &leader)
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	at, err := http.ParseTime(head.Get("Date"))
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // an agent that does not say is no failure
	}
	return at, nil
}

// Marks are the tags and the metadata that the instances of a service outside lanes
// have, of all of them together.
func (c *Client) Marks(ctx context.Context, service string) (tags []string, meta map[string]string, err error) {
	if err := checkWatched(service); err != nil {
		return nil, nil, err
	}
	meta = map[string]string{}
	err = c.do(ctx, "read "+service, needReads, func(ctx context.Context) error {
		entries, _, err := c.api.Health().Service(service, "", false, query(ctx))
		for _, e := range entries {
			if e.Service == nil || e.Service.Meta[MetaLane] != "" {
				continue
			}
			tags = append(tags, e.Service.Tags...)
			for k, v := range e.Service.Meta {
				meta[k] = v
			}
		}
		return err
	})
	slices.Sort(tags)
	return slices.Compact(tags), meta, err
}
