package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lane/pkg/chain"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/proxy"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

func newCheckCmd(f *factory) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Check that a lane is ready, that its tag is at every hop, and where it is lost",
		Long: `Send requests of a lane, or take one that somebody has sent, and ask the gateways and
sidecars of the environment what came of it: a tag that is lost throws no error, the
request is only served by the baseline from there on.`,
		Example: `  lane check ready dev-alice
  lane check chain http://order-service/api/orders/42
  lane check trace 4bf92f3577b34da6a3ce929d0e0e4736
  lane check residue http://order-service/api/orders/42
  lane check clean dev-alice --for 10m`,
		Args: subcommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newCheckReadyCmd(f), newCheckChainCmd(f), newCheckTraceCmd(f), newCheckResidueCmd(f), newCheckCleanCmd(f))
	return c
}

// How long the record of a request is waited for: routers write it when it has ended,
// a moment after its answer has come.
const (
	recordTick  = 100 * time.Millisecond
	recordStill = 2                // polls without news, where nothing is open
	recordQuiet = 10               // where something is
	recordLimit = 10 * time.Second // for all of it, of a chain
)

// witnesses are who can say what came of a request.
type witnesses struct {
	admin   *admin
	routers []consul.Router
	session control.Found
	rows    func(ctx context.Context) ([]traffic.Exchange, error) // what sessions have seen
	silent  map[string]string
}

// witnesses finds them. Nothing has been sent yet.
func (f *factory) witnesses(ctx context.Context, s control.Found) (*witnesses, error) {
	w, err := f.living(ctx)
	if err != nil {
		return nil, err
	}
	w.session = s
	rows, _, err := s.Client.Since(ctx, 0, 0)
	after := uint64(0) // its last exchange before the first request
	if n := len(rows); n > 0 {
		after = rows[n-1].Seq
	}
	w.rows = func(ctx context.Context) ([]traffic.Exchange, error) {
		rows, _, err := s.Client.Since(ctx, after, 0)
		return rows, err
	}
	return w, err
}

// living are the routers that the registry does not hold for dead.
func (f *factory) living(ctx context.Context) (*witnesses, error) {
	client, err := f.registry()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	all, err := routers(ctx, client)
	if err != nil {
		return nil, err
	}
	w := &witnesses{admin: newAdmin(), silent: map[string]string{}}
	for _, r := range all {
		if !dead(r) {
			w.routers = append(w.routers, r)
		}
	}
	return w, nil
}

// begin reads what a check sends, and finds by whom it goes and who has seen it. The
// client is the caller's to close.
func (f *factory) begin(ctx context.Context, o *checkOptions) (target *url.URL, head http.Header, client *http.Client, w *witnesses, err error) {
	if target, head, err = request(o.url, o.headers); err != nil {
		return nil, nil, nil, nil, err
	}
	s, client, err := f.prober(ctx, target, o.lane, o.limit)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if w, err = f.witnesses(ctx, s); err != nil {
		client.CloseIdleConnections()
		return nil, nil, nil, nil, err
	}
	return target, head, client, w, nil
}

// hops asks one router for a trace.
func (a *admin) hops(ctx context.Context, r consul.Router, id string) (chain.Hops, error) {
	var h chain.Hops
	err := a.get(ctx, r, "/v1/trace/"+url.PathEscape(id), func(b io.Reader) error { return json.NewDecoder(b).Decode(&h) })
	if err == nil && h.Schema != chain.HopsSchema {
		err = fmt.Errorf("it answers with the schema %.40q, not %s", h.Schema, chain.HopsSchema)
	}
	if err != nil {
		return chain.Hops{}, err
	}
	return h, nil
}

// ask is what all of them say of a trace.
func (w *witnesses) ask(ctx context.Context, rows []traffic.Exchange, id string) []chain.Seen {
	all := w.askRouters(ctx, id)
	// A gateway that does not trust who asks it begins a trace of its own.
	ids := []string{id}
	if own := renamed(all, id); own != "" {
		all, ids = w.askRouters(ctx, own), append(ids, own)
	}
	mine := []chain.Hop{}
	for _, id := range ids { // a session before the gateway has the one, and one behind it the other
		mine = append(mine, chain.Find(func(show func(*traffic.Exchange)) {
			for i := range rows {
				show(&rows[i])
			}
		}, id)...)
	}
	return append([]chain.Seen{{Session: true, Hops: chain.Hops{Hops: mine}}}, all...)
}

func (w *witnesses) askRouters(ctx context.Context, id string) []chain.Seen {
	type answer struct {
		hops chain.Hops
		err  error
	}
	var out []chain.Seen
	for i, a := range each(w.routers, func(r consul.Router) answer {
		h, err := w.admin.hops(ctx, r, id)
		return answer{h, err}
	}) {
		r := w.routers[i]
		if a.err != nil {
			w.silent[r.ID] = a.err.Error()
		} else {
			delete(w.silent, r.ID)
		}
		out = append(out, chain.Seen{Hops: a.hops}) // each has its place
	}
	return out
}

// renamed is the trace that a gateway has begun in place of the one that it was given.
func renamed(all []chain.Seen, id string) string {
	for _, s := range all {
		for _, h := range s.Hops.Hops {
			if chain.Same(h.ClientTraceID, id) && !chain.Same(h.TraceID, id) {
				return h.TraceID
			}
		}
	}
	return ""
}

// watch asks until there is no news, and judges: open says that something may still
// come. What is judged last is what counts.
func (w *witnesses) watch(ctx context.Context, longest time.Duration, ids []string, judge func(all [][]chain.Seen) (open bool)) error {
	limit, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	tick := time.NewTicker(recordTick)
	defer tick.Stop()
	for last, still := -1, 0; ; {
		rows, err := w.rows(ctx)
		if err != nil {
			return err
		}
		all, n := make([][]chain.Seen, len(ids)), 0
		for i, id := range ids {
			all[i] = w.ask(ctx, rows, id)
			for _, s := range all[i] {
				n += len(s.Hops.Hops)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		open := judge(all)
		if still++; n != last {
			last, still = n, 0
		}
		if still >= recordQuiet || still >= recordStill && !open {
			return w.mute()
		}
		select {
		case <-tick.C:
		case <-limit.Done():
			return w.mute()
		}
	}
}

// mute is the error if nobody has answered.
func (w *witnesses) mute() error {
	if len(w.silent) < len(w.routers) {
		return nil
	}
	var why []string
	for _, r := range w.routers {
		why = append(why, printer.Line(r.ID+": "+w.silent[r.ID]))
	}
	return &noDataError{msg: "no gateway and no sidecar can be asked: " + strings.Join(why, "; "),
		hint: "each needs an admin port that this machine reaches: --admin ADDRESS"}
}

// notes says on stderr who has said nothing.
func (w *witnesses) notes(out io.Writer) {
	for _, r := range w.routers {
		if why := w.silent[r.ID]; why != "" {
			fmt.Fprintf(out, "lane: %s has said nothing: %s\n", r.ID, printer.Line(why))
		}
	}
}

// sent is one request and what its answer's head says.
type sent struct {
	status   int
	decision string
	err      error
	problem  *proxy.Problem // why, if lane has answered it itself
}

// problemLimit bounds what is read of an answer to find the error in it.
const problemLimit = 64 << 10

// failure is why nothing can be said of what the request would have called; nil if it
// was answered well.
func (s *sent) failure() error {
	switch {
	case s.err != nil:
		return s.err
	case s.status < http.StatusBadRequest:
		return nil
	case s.problem == nil:
		return fmt.Errorf("it was answered with %d", s.status)
	}
	return &answeredError{s.status, s.problem}
}

// answeredError is an answer that is an error of lane's own, with the way out of it.
type answeredError struct {
	status  int
	problem *proxy.Problem
}

func (e *answeredError) Error() string {
	text := fmt.Sprintf("it was answered with %d %s", e.status, e.problem.Code)
	if e.problem.Message != "" {
		text += ": " + e.problem.Message
	}
	return printer.Line(text) // it may be of anybody on the way
}

// hintOf is the way out that an error names; or is it if none is named.
func hintOf(err error, or string) string {
	var a *answeredError
	if errors.As(err, &a) && a.problem.Hint != "" {
		return printer.Line(a.problem.Hint)
	}
	return or
}

// unseenError is the error where no router has seen the request; failed is why, if it failed.
func unseenError(failed error) error {
	e := &noDataError{msg: "no gateway and no sidecar has seen the request: nothing is known of its chain",
		hint: "the services of the way need sidecars (docs/gateway.md); those asked: lane top"}
	if failed != nil {
		e.msg += "; " + failed.Error()
		e.hint = hintOf(failed, e.hint)
	}
	return e
}

// probe sends a request with a tag and the fields of a trace.
func probe(ctx context.Context, client *http.Client, target *url.URL, head http.Header, tag string, trace map[string]string) sent {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return sent{err: err}
	}
	for k, v := range head {
		req.Header[k] = v
	}
	for k, v := range trace {
		req.Header.Set(k, v)
	}
	req.Header.Set(lane.HeaderTag, tag)
	res, err := client.Do(req)
	if err != nil {
		return sent{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	got := sent{status: res.StatusCode, decision: res.Header.Get(lane.HeaderDecision)}
	if code := res.Header.Get(lane.HeaderError); code != "" && got.status >= http.StatusBadRequest {
		got.problem = &proxy.Problem{Code: lane.Code(code)} // a gateway tells strangers no more
		text, _ := io.ReadAll(io.LimitReader(res.Body, problemLimit))
		var p proxy.Problem
		if json.Unmarshal(text, &p) == nil && string(p.Code) == code {
			got.problem = &p
		}
	}
	_, got.err = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<20)) // it is recorded when it has ended
	return got
}
