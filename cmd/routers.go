package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
)

// routerRev is what a gateway or a sidecar answers at GET /rev of its admin
// listener: which revision of the rules holds there.
type routerRev struct {
	Schema   string `json:"schema"` // lane.rev/v1
	Revision int    `json:"revision"`
	Refused  int    `json:"refused,omitempty"` // an active revision that does not hold here
	Why      string `json:"why,omitempty"`
	Own      bool   `json:"own,omitempty"` // it has a file's, and follows none in the registry
	Follows  bool   `json:"follows,omitempty"`
}

// adminLimit bounds one answer of a router's admin listener.
const adminLimit = 2 * time.Second

// admin asks the admin listeners of routers, and nobody's proxy.
type admin struct{ client *http.Client }

func newAdmin() *admin {
	return &admin{&http.Client{Timeout: adminLimit, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// get has the body of an answer read.
func (a *admin) get(ctx context.Context, r consul.Router, path string, read func(io.Reader) error) error {
	if r.Admin == "" {
		return fmt.Errorf("its registration has no %s", consul.MetaAdmin)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Admin+path, nil)
	if err != nil {
		return err
	}
	res, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s answered %s", r.Admin, path, res.Status)
	}
	return read(io.LimitReader(res.Body, 16<<20))
}

func (a *admin) rev(ctx context.Context, r consul.Router) (routerRev, error) {
	var out routerRev
	err := a.get(ctx, r, "/rev", func(b io.Reader) error { return json.NewDecoder(b).Decode(&out) })
	return out, err
}

// served is how many requests of a service each of its instances has got from a
// router, by the router's own counters.
func (a *admin) served(ctx context.Context, r consul.Router, service string) (map[string]float64, error) {
	out := map[string]float64{}
	err := a.get(ctx, r, "/metrics", func(b io.Reader) error {
		lines := bufio.NewScanner(b)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			labels, value, ok := counter(lines.Text(), "lane_requests_total")
			if !ok || labels["service"] != service {
				continue
			}
			out[labels["instance"]] += value
		}
		return lines.Err()
	})
	return out, err
}

// counter reads one line of the text format of metrics, if it is of the metric.
func counter(line, metric string) (labels map[string]string, value float64, ok bool) {
	rest, ok := strings.CutPrefix(line, metric+"{")
	if !ok {
		return nil, 0, false
	}
	labels = map[string]string{}
	for {
		if rest = strings.TrimLeft(rest, ", "); strings.HasPrefix(rest, "}") {
			break
		}
		name, more, found := strings.Cut(rest, "=")
		if !found {
			return nil, 0, false
		}
		quoted, err := strconv.QuotedPrefix(more)
		if err != nil {
			return nil, 0, false
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, 0, false
		}
		labels[name], rest = text, more[len(quoted):]
	}
	words := strings.Fields(strings.TrimPrefix(rest, "}")) // a time may follow
	if len(words) == 0 {
		return nil, 0, false
	}
	value, err := strconv.ParseFloat(words[0], 64)
	return labels, value, err == nil
}

// routers are the gateways and sidecars that can be asked; an error says that
// there are none, so that nothing can be said about them.
func routers(ctx context.Context, client *consul.Client) ([]consul.Router, error) {
	all, err := client.Routers(ctx)
	if err == nil && len(all) == 0 {
		err = &noDataError{msg: "no gateway and no sidecar is in the registry: nobody can be asked what holds there",
			hint: "they register as " + consul.GatewayService + " and " + consul.SidecarService}
	}
	return all, err
}

// each asks all routers at once.
func each[T any](all []consul.Router, ask func(consul.Router) T) []T {
	out := make([]T, len(all))
	var asks sync.WaitGroup
	for i, r := range all {
		asks.Go(func() { out[i] = ask(r) })
	}
	asks.Wait()
	return out
}

// dead reports whether a router that does not answer is one that the registry
// knows to be gone: it routes nothing, and nobody waits for it.
func dead(r consul.Router) bool { return r.Health == lane.Critical }
