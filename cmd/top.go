package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lane/pkg/consul"
	"lane/pkg/iostreams"
	"lane/pkg/metrics"
	"lane/pkg/printer"

	"github.com/spf13/cobra"
)

type topOptions struct {
	admin    []string
	window   string
	interval time.Duration
	once     bool
	json     bool
}

func newTopCmd(f *factory) *cobra.Command {
	o := &topOptions{}
	c := &cobra.Command{
		Use:   "top",
		Short: "Show lanes beside the baseline, service by service: rate, errors, p95, p99",
		Long: `Show the requests of each lane beside those of the baseline, service by service:
rate, errors, fallbacks, p95 and p99 of the last 10 or 60 seconds. The figures
are those of the gateways and sidecars that are registered, or of the admin
ports given with --admin. On a terminal they are painted
again every 2 seconds, until Ctrl-C; off it, with --once or with --json once.
Without a port that answers it exits 3.`,
		Example: `  lane top
  lane top --once --window 60s
  lane top --admin 127.0.0.1:7475 --json`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return runTop(c.Context(), f, o) },
	}
	addFlags(c, &o.admin, "admin", aHostPort, "an admin port, instead of those in the registry")
	addFlag(c, &o.window, "window", "10s", one("SPAN", "10s", "60s"), "the span of time: 10s or 60s")
	addFlag(c, &o.interval, "interval", "2s", duration(500*time.Millisecond, longest), "how often it is painted again, 500ms at least")
	c.Flags().BoolVar(&o.once, "once", false, "print once and end")
	jsonFlag(c, &o.json)
	return c
}

func runTop(ctx context.Context, f *factory, o *topOptions) error {
	c := newAdmin()
	if o.once || o.json || !f.io.IsStdoutTTY || f.io.Dumb {
		top, err := f.top(ctx, c, o)
		if err != nil {
			return err
		}
		return f.printTop(o, &top)
	}
	return f.repaint(ctx, c, o)
}

// top asks all ports at once.
func (f *factory) top(ctx context.Context, c *admin, o *topOptions) (printer.Top, error) {
	ports, err := f.ports(ctx, o)
	if err != nil {
		return printer.Top{}, err
	}
	stats := make([]metrics.Stats, len(ports))
	var asks sync.WaitGroup
	for i := range ports {
		asks.Go(func() {
			var err error
			if stats[i], err = c.stats(ctx, ports[i].Addr); err != nil {
				ports[i].Error = err.Error()
			}
		})
	}
	asks.Wait()
	if ctx.Err() != nil {
		return printer.Top{}, context.Cause(ctx)
	}
	var why []string
	for _, p := range ports {
		if p.Error != "" {
			why = append(why, printer.Line(p.Addr+": "+p.Error))
		}
	}
	if len(why) == len(ports) {
		return printer.Top{}, &noDataError{msg: "no admin port answers: " + strings.Join(why, "; "),
			hint: "an admin port is for its own machine unless it was given another address; --admin HOST:PORT names one"}
	}
	return printer.NewTop(ports, stats, o.window == "60s"), nil
}

// ports are the admin ports to ask.
func (f *factory) ports(ctx context.Context, o *topOptions) ([]printer.TopPort, error) {
	var out []printer.TopPort
	for _, a := range o.admin {
		out = append(out, printer.TopPort{Addr: a})
	}
	if len(out) > 0 {
		return out, nil
	}
	client, err := f.registry()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found, err := client.Routers(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		if r.Admin != "" && !dead(r) {
			out = append(out, printer.TopPort{Addr: r.Admin, Service: r.Service, ID: r.ID})
		}
	}
	if len(out) == 0 {
		return nil, &noDataError{msg: "the registry has no gateway and no sidecar with an admin port", hint: "name one:  lane top --admin HOST:PORT"}
	}
	return out, nil
}

// stats asks one port for its figures. What is there may be anything.
func (a *admin) stats(ctx context.Context, addr string) (metrics.Stats, error) {
	var s metrics.Stats
	err := a.get(ctx, consul.Router{Admin: addr}, "/v1/stats", func(b io.Reader) error { return json.NewDecoder(b).Decode(&s) })
	if err == nil && s.Schema != metrics.StatsSchema {
		err = fmt.Errorf("it answers with the schema %.40q, not %s", s.Schema, metrics.StatsSchema)
	}
	return s, err
}

func (f *factory) printTop(o *topOptions, top *printer.Top) error {
	if o.json {
		return f.printJSON(top)
	}
	if err := printer.PrintTop(f.io, top); err != nil {
		return err
	}
	return printer.TopNotes(f.io, top)
}

// repaint prints the table again and again in its place.
func (f *factory) repaint(ctx context.Context, c *admin, o *topOptions) error {
	t := time.NewTicker(o.interval)
	defer t.Stop()
	for painted := 0; ; {
		page, err := f.topPage(ctx, c, o)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && painted == 0:
			return err
		case err != nil:
			page = []byte("lane: " + printer.Line(err.Error()) + "\n") // it may answer again
		}
		up := ""
		if painted > 0 {
			up = fmt.Sprintf("\x1b[%dA\x1b[J", painted)
		}
		page = fit(page, f.io.Height)
		painted = bytes.Count(page, []byte("\n"))
		// A line that is too long must not become two: the next page begins where
		// this one did.
		if _, err := fmt.Fprint(f.io.Out, up, "\x1b[?7l", string(page), "\x1b[?7h"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}

// topPage is what a terminal shows at one time.
func (f *factory) topPage(ctx context.Context, c *admin, o *topOptions) ([]byte, error) {
	top, err := f.top(ctx, c, o)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	s := iostreams.IOStreams{Out: &b, Err: &b, IsStdoutTTY: true, Color: f.io.Color, ErrColor: f.io.Color, Width: f.io.Width}
	if err := printer.PrintTop(&s, &top); err != nil {
		return nil, err
	}
	err = printer.TopNotes(&s, &top)
	return b.Bytes(), err
}

// fit cuts a page to the lines of a terminal, 0 for one of unknown height: what has
// left it at the top cannot be painted over.
func fit(page []byte, height int) []byte {
	lines := bytes.SplitAfter(page, []byte("\n"))
	if n := len(lines) - 1; height > 2 && n >= height {
		return fmt.Appendf(bytes.Join(lines[:height-2], nil), "… %d more lines: lane top --once shows all\n", n-height+2)
	}
	return page
}
