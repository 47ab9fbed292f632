package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/proxy"
	"lane/pkg/rules"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

type explainOptions struct {
	url      string
	lane     string
	headers  []string
	cookies  []string
	snapshot string
	color    colorOptions
	json     bool
	flags    []config.Flag
}

// explainLimit bounds all that `lane explain` asks the registry.
const explainLimit = 10 * time.Second

func newExplainCmd(f *factory) *cobra.Command {
	o := &explainOptions{}
	var given func() []config.Flag
	c := &cobra.Command{
		Use:   "explain URL",
		Short: "Show where a request would go, with every candidate and why it was left out",
		Long: `Show the decision for a request without sending it: which instances would serve
it, and of every other instance of the service why it was left out. The tag is
--lane, else LANE_TAG, else the lane of the only session on this machine; a tag of
the request itself (-H, ?x-lane-tag=, dev-alice.order-service.localhost) wins over
all of them, and -H 'x-lane-tag: baseline' is an untagged request.

Where such a session runs, it is decided as its proxy does: by its env, tenant, zone,
policy and presets, and not by the settings of here, but for flags. That is said.

With --rules it is a request to a gateway: which rule gives it its lane, why each
rule before did not match, what a whitelist says, and then the decision with that
lane. Where it enters say the gateway's routes (--config, --route), or --entry.

With --snapshot FILE it decides offline: FILE holds one input of a decision, or an
array of objects with id and input (docs/routing.md, Snapshots). With --rules FILE
it takes a URL too, and colors that.`,
		Example: `  lane explain http://order-service/api/orders/42
  lane explain -H 'x-lane-tag: dev-bob' http://inventory/
  lane explain --rules active --cookie user=dev2 http://shop.test.example/cart
  lane explain --rules rules.yaml --entry shop -H 'X-User-Id: u-1' http://shop/
  lane explain --snapshot testdata/route_cases.json --json`,
		Args: func(c *cobra.Command, args []string) error {
			if o.snapshot != "" && o.color.rules == "" {
				return takes()(c, args)
			}
			return takes("URL")(c, args)
		},
		ValidArgsFunction: f.completeURL,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.color.check(c, o); err != nil {
				return err
			}
			if o.snapshot != "" && o.color.rules == "" {
				return runSnapshot(f, o)
			}
			o.url = args[0]
			o.flags = given()
			if len(o.cookies) > 0 {
				o.headers = append(o.headers, "Cookie: "+strings.Join(o.cookies, "; "))
			}
			if o.color.rules != "" {
				return explainColored(c.Context(), f, o)
			}
			return runExplain(c.Context(), f, o)
		},
	}
	addFlag(c, &o.lane, "lane", "", aLane, "the lane that the request is tagged with")
	addFlags(c, &o.headers, "header,H", aHeader, "header of the request")
	addFlags(c, &o.cookies, "cookie", aCookie, "cookie of the request")
	o.color.flags(c)
	addFlag(c, &o.snapshot, "snapshot", "", or(aFile, "-"), "decide from a file, with no registry and no network; - is standard input")
	jsonFlag(c, &o.json)
	given = settingFlags(c, callerSettings)
	_ = c.RegisterFlagCompletionFunc("lane", f.completeLanes)
	return c
}

// callerSettings are the settings that describe who asks.
var callerSettings = []setting{
	{"env", "env", "ENV", "the caller's environment, a hard constraint"},
	{"tenant", "tenant", "TENANT", "the caller's tenant, a hard constraint"},
	{"zone", "zone", "ZONE", "the caller's zone"},
	{"preset", "preset", "NAME", "header convention of another lane system"},
	{"no-match", "no_match", "POLICY", "a service that the lane lacks: fallback, fail or proportional"},
}

// snapshots reads the inputs of decisions; - is standard input.
func (f *factory) snapshots(name string) ([]lane.Snapshot, error) {
	in := f.io.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // only read
		in = file
	}
	cases, err := lane.ParseSnapshots(in)
	if err != nil {
		return nil, usagef("docs/routing.md, Snapshots, lists the fields", "--snapshot %s: %v", name, err)
	}
	return cases, nil
}

func runSnapshot(f *factory, o *explainOptions) error {
	cases, err := f.snapshots(o.snapshot)
	if err != nil {
		return err
	}
	for _, c := range cases {
		r := c.Decide()
		if err := f.printResult(o.json, &r); err != nil {
			return err
		}
	}
	return nil
}

func runExplain(ctx context.Context, f *factory, o *explainOptions) error {
	target, head, err := request(wellFormed(o.url), o.headers)
	if err != nil {
		return err
	}
	shown := target.String()
	if wellFormed(o.url) != o.url {
		shown = o.url
	}
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()
	through := f.through(ctx, o.lane)
	s, err := f.settings(given{lane: o.lane, flags: o.flags, session: through})
	if err != nil {
		return err
	}
	if err := f.warnSettings(s); err != nil {
		return err
	}
	tag, err := f.tagOf(ctx, s, target, head)
	if err != nil {
		return err
	}
	over, _ := proxy.Scheme(target.Scheme)
	closed := over == "https"
	router, err := lane.NewRouter(s.Policy())
	if err != nil {
		return err
	}
	var ex lane.Explanation
	idle := "" // a port that decides nothing
	err = f.engine(ctx, s, router, func(t *proxy.Transport) error {
		service, cat, err := t.Locate(ctx, target.Host)
		if err := missing(err); err != nil {
			return err
		}
		if _, noIP := netip.ParseAddr(target.Hostname()); noIP != nil && target.Port() != "" && service != "" {
			if same, _, err := t.Locate(ctx, target.Hostname()); err == nil && same == service {
				idle = target.Port()
			}
		}
		if closed = closed && !proxy.Opens(s.Mitm, target.Host, service); closed {
			// As the proxy decides it: it does not see what is inside.
			tag = lane.Tag{Kind: lane.TagBaseline, Raw: lane.BaselineTag}
		}
		hops, _ := lane.Hops(head)
		ex = router.Explain(cat, lane.Request{Service: service, External: service == "", Tag: tag, Hops: hops, Now: f.now(), StickyKey: userOf(s, head),
			Caller: lane.Caller{Env: s.Env, Tenant: s.Tenant, Zone: s.Zone}})
		return nil
	})
	if err != nil {
		return err
	}
	if through != nil {
		if err := f.sayThrough(s, through); err != nil {
			return err
		}
	}
	if idle != "" {
		if _, err := fmt.Fprintf(f.io.Err, "note: the port %s is not used: %s is the name of a service, and the registry says at which ports its instances are\n", idle, target.Hostname()); err != nil {
			return err
		}
	}
	if closed && ex.Decision.Service != "" {
		if _, err := fmt.Fprintln(f.io.Err, "note: a tag inside TLS cannot be seen: https is decided as a call of the baseline; mitm in lane.yaml opens it"); err != nil {
			return err
		}
	}
	return f.printExplanation(o.json, printer.NewExplanation(shown, tag, &ex))
}

// through is the session whose proxy a request would go through: of the lane that was
// named, else of LANE_TAG, else the only one of this machine; nil if there is none, or it
// cannot be told.
func (f *factory) through(ctx context.Context, name string) *control.Status {
	all, silent, err := f.sessions(ctx)
	if err != nil {
		return nil // who needs one is told why
	}
	if name = cmp.Or(name, f.getenv("LANE_TAG")); name == "" {
		if len(all) == 1 && silent == nil {
			return &all[0].Status
		}
		return nil
	}
	for i := range all {
		if string(all[i].Status.Lane) == name {
			return &all[i].Status // the oldest one, as everywhere
		}
	}
	return nil
}

// sayThrough says by whose settings a request was decided.
func (f *factory) sayThrough(s *config.Settings, by *control.Status) error {
	var taken []string
	for _, e := range s.Entries() {
		if e.Source == sessionName(by) {
			taken = append(taken, e.Key+": "+e.Value)
		}
	}
	text := fmt.Sprintf("note: decided as %s decides", sessionName(by))
	if len(taken) > 0 {
		text += ", with its " + strings.Join(taken, ", ")
	}
	client, err := consul.Open(f.consulConfig(s))
	if err != nil {
		return err
	}
	defer client.Close()
	if here := client.Address(); by.Registry.Address != here {
		text += fmt.Sprintf("; but it asks the registry at %s, and this command that at %s", by.Registry.Address, here)
	}
	_, err = fmt.Fprintln(f.io.Err, traffic.Printable(text))
	return err
}

// missing makes of a service that is not there what the user reads.
func missing(err error) error {
	var p *proxy.Problem
	if errors.As(err, &p) {
		return &noDataError{msg: p.Message, hint: p.Hint}
	}
	return err
}

// readURL reads a URL as curl takes it: http:// may be left out.
func readURL(raw string) (*url.URL, error) {
	full := raw
	if !strings.Contains(raw, "://") {
		full = "http://" + raw
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" {
		return nil, usagef("a URL looks like http://order-service/api/orders/42", "%q is no URL", raw)
	}
	if _, ok := proxy.Scheme(u.Scheme); !ok {
		return nil, usagef("http://, https://, ws:// and wss:// URLs go through the proxy", "cannot proxy the scheme %s", u.Scheme)
	}
	return u, nil
}

// wellFormed is a URL of plain HTTP whose bad escapes are made literal: the proxy sends
// such a path on as it stands, and decides by the rest.
func wellFormed(raw string) string {
	rest := raw
	if scheme, after, has := strings.Cut(raw, "://"); has {
		if over, _ := proxy.Scheme(scheme); over != "http" {
			return raw // inside TLS, and by a proxy behind, it would be refused
		}
		rest = after
	}
	path := strings.IndexByte(rest, '/')
	if query := strings.IndexAny(rest, "?#"); path < 0 || query >= 0 && query < path {
		return raw
	}
	end := len(rest)
	if query := strings.IndexAny(rest, "?#"); query >= 0 {
		end = query
	}
	var out strings.Builder
	for i := path; i < end; i++ {
		if out.WriteByte(rest[i]); rest[i] != '%' {
			continue
		}
		if _, err := url.PathUnescape(rest[i:min(i+3, end)]); err != nil {
			out.WriteString("25")
		}
	}
	return raw[:len(raw)-len(rest)+path] + out.String() + rest[end:]
}

// request reads a URL and headers as curl takes them.
func request(raw string, headers []string) (*url.URL, http.Header, error) {
	u, err := readURL(raw)
	if err != nil {
		return nil, nil, err
	}
	head := http.Header{}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		head.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return u, head, nil
}

// userOf is who a request's user is, where the settings keep him in his version.
func userOf(s *config.Settings, head http.Header) string {
	user, _ := s.StickyKey().Of(rules.Map(head))
	return user
}

// tagOf is the tag that a request has in the developer's proxy: its own, else
// the lane that was named, else the lane of the only session.
func (f *factory) tagOf(ctx context.Context, s *config.Settings, target *url.URL, head http.Header) (lane.Tag, error) {
	car, err := s.Carriers()
	if err != nil {
		return lane.Tag{}, err
	}
	tag := car.ReadRequest(head, target.RequestURI())
	host := strings.TrimSuffix(strings.ToLower(target.Hostname()), ".")
	if label, _, ok := lane.CutHost(host); ok && s.Hosts[host] == "" {
		tag = car.Join(tag, label)
	}
	if tag.Kind != lane.TagNone {
		return tag, nil
	}
	if s.Lane != "" {
		name, err := readLane(s.Lane)
		return lane.Tag{Kind: lane.TagLane, Lane: name, Raw: s.Lane}, err
	}
	all, silent, err := f.sessions(ctx)
	if err != nil || len(all) == 0 && silent == nil {
		return lane.Tag{}, err
	}
	found, err := f.session(ctx, "")
	if err != nil {
		return lane.Tag{}, err
	}
	return lane.Tag{Kind: lane.TagLane, Lane: found.Status.Lane, Raw: string(found.Status.Lane)}, nil
}

// engine makes an engine over a watch of the registry, has it used, and ends
// both.
func (f *factory) engine(ctx context.Context, s *config.Settings, router *lane.Router, use func(*proxy.Transport) error) error {
	client, err := consul.Open(f.consulConfig(s))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	car, err := s.Carriers()
	if err != nil {
		return err
	}
	names, err := proxy.NewNames(proxy.NamesConfig{Hosts: s.Hosts, Colored: s.Colored, Datacenter: client.OwnDatacenter(ctx)})
	if err != nil {
		return err
	}
	watcher := consul.NewWatcher(client, consul.WatchOptions{Now: f.now, Log: f.logger(slog.LevelError)})
	t, err := proxy.NewTransport(proxy.Config{Registry: watcher, Router: router, Carriers: &car, Names: names, Log: traffic.NewLog(1), Now: f.now})
	if err != nil {
		return err
	}
	defer t.Close()
	life, end := context.WithCancel(ctx)
	parts, life := errgroup.WithContext(life)
	parts.Go(func() error { return watcher.Run(life) })
	err = use(t)
	end()
	if e := parts.Wait(); err == nil && !errors.Is(e, context.Canceled) {
		err = e
	}
	return err
}

func (f *factory) printExplanation(asJSON bool, ex printer.Explanation) error {
	if asJSON {
		return printer.JSON(f.io, ex)
	}
	return printer.PrintExplanation(f.io, ex)
}

func (f *factory) printResult(asJSON bool, r *lane.Result) error {
	if asJSON {
		return json.NewEncoder(f.io.Out).Encode(r)
	}
	_, err := fmt.Fprintf(f.io.Out, "%s\t%s\t%s\t%s\n", r.ID, r.Kind, r.Reason, strings.Join(r.Chosen, ","))
	return err
}
