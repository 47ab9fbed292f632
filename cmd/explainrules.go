package cmd

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/proxy"
	"lane/pkg/rules"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

// activeRules names the rules of the registry on a command line.
const activeRules = "active"

// colorOptions say how a request is colored at a gateway, for `lane explain`.
type colorOptions struct {
	rules       string // empty: it is not colored
	entry       string
	gateway     gatewayOptions // its routes
	remote      netip.Addr
	whitelisted []string
	lists       listOptions
}

// onlyWithRules are the flags that mean nothing without --rules.
var onlyWithRules = []string{"entry", "config", "route", "remote", "whitelisted", "redis", "redis-prefix"}

func (o *colorOptions) flags(c *cobra.Command) {
	addFlag(c, &o.rules, "rules", "", or(aFile, activeRules), "color it as a gateway by a file of rules, or by the active ones: active")
	addFlag(c, &o.entry, "entry", "", aService, "the service at which it enters, for --rules")
	o.gateway.routeFlags(c)
	addFlag(c, &o.remote, "remote", "", anIP, "address of who sends it, for trustHeader and identity of the rules")
	addFlags(c, &o.whitelisted, "whitelisted", anyText("ROUTE"), "route on whose whitelist its user is; asks no list")
	o.lists.flags(c)
}

func (o *colorOptions) check(c *cobra.Command, ex *explainOptions) error {
	if o.rules == "" {
		for _, name := range onlyWithRules {
			if c.Flags().Changed(name) {
				return usagef("see `lane explain --help`", "--%s goes with --rules", name)
			}
		}
		return nil
	}
	switch {
	case ex.lane != "":
		return usagef("a gateway sees the request's own tag alone: -H 'x-lane-tag: dev-alice'", "--lane does not go with --rules")
	case o.rules == activeRules && ex.snapshot != "":
		return usagef("with --snapshot nothing is asked: lane rules get >rules.yaml", "--rules active is in the registry")
	}
	return nil
}

// colored is a request as it leaves the gateway's rules.
type colored struct {
	*printer.ExplainedColor
	tag     lane.Tag
	strip   []string // headers that the gateway takes off
	routing *proxy.Routing
	note    string
	fixed   bool // its service has upstreams of the route
}

// user is who the request's user is to the gateway, which takes no word of it from a
// sender who may not say.
func (c *colored) user(s *config.Settings, head http.Header) string {
	if slices.Contains(c.strip, s.StickyKey().Header()) {
		return ""
	}
	return userOf(s, head)
}

// explainColored explains a request to a gateway: its color, then the decision.
func explainColored(ctx context.Context, f *factory, o *explainOptions) error {
	target, head, err := request(o.url, o.headers)
	if err != nil {
		return err
	}
	s, err := f.settings(given{flags: o.flags})
	if err != nil {
		return err
	}
	policy := s.Policy()
	policy.InvalidTag = lane.InvalidDrop // as at a gateway: the rules have dealt with it
	if o.snapshot != "" {
		return explainOffline(f, o, s, target, head)
	}
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()
	redis, err := o.color.lists.url(f)
	if err != nil {
		return err
	}
	client, err := consul.Open(f.consulConfig(s))
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := o.color.lists.open(f, redis, client)
	if err != nil {
		return err
	}
	defer func() { _ = list.Close() }() // the command ends
	set, name, err := o.color.set(ctx, client)
	if err != nil {
		return err
	}
	members := membersOf(ctx, list)
	if len(o.color.whitelisted) > 0 {
		members = o.color.members()
	}
	c, err := o.color.color(s, set, name, members, target, head)
	if err != nil {
		return err
	}
	router, err := lane.NewRouter(policy)
	if err != nil {
		return err
	}
	var ex lane.Explanation
	err = f.engine(ctx, s, router, func(t *proxy.Transport) error {
		_, cat, err := t.Locate(ctx, c.Entry)
		if c.fixed {
			cat, err = c.routing.Fixed(cat), nil
		}
		if err := missing(err); err != nil {
			return err
		}
		hops, _ := lane.Hops(head)
		ex = router.Explain(cat, lane.Request{Service: c.Entry, Tag: c.tag, Hops: hops, Now: f.now(), StickyKey: c.user(s, head),
			Caller: lane.Caller{Env: s.Env, Tenant: s.Tenant, Zone: s.Zone}})
		return nil
	})
	if err != nil {
		return err
	}
	return f.printColored(o, target, c, &ex)
}

// explainOffline decides by each input of a file, with no registry and no network.
func explainOffline(f *factory, o *explainOptions, s *config.Settings, target *url.URL, head http.Header) error {
	cases, err := f.snapshots(o.snapshot)
	if err != nil {
		return err
	}
	set, name, err := o.color.set(context.Background(), nil)
	if err != nil {
		return err
	}
	var members rules.Members // unless somebody has said who is on which list, nobody knows
	if len(o.color.whitelisted) > 0 {
		members = o.color.members()
	}
	c, err := o.color.color(s, set, name, members, target, head)
	if err != nil {
		return err
	}
	for _, one := range cases {
		one.Policy.InvalidTag = lane.InvalidDrop
		router, err := lane.NewRouter(one.Policy)
		if err != nil {
			return err
		}
		one.Request.Tag = c.tag
		ex := router.Explain(one.Catalog, one.Request)
		if err := f.printColored(o, target, c, &ex); err != nil {
			return err
		}
	}
	return nil
}

func (f *factory) printColored(o *explainOptions, target *url.URL, c *colored, ex *lane.Explanation) error {
	if c.note != "" {
		if _, err := fmt.Fprintf(f.io.Err, "note: %s\n", c.note); err != nil {
			return err
		}
	}
	out := printer.NewExplanation(target.String(), c.tag, ex)
	out.Color = c.ExplainedColor
	return f.printExplanation(o.json, out)
}

// set is the rules, and what to call them.
func (o *colorOptions) set(ctx context.Context, client *consul.Client) (*rules.Set, string, error) {
	if o.rules == activeRules {
		return activeSet(ctx, client)
	}
	set, err := readRules(o.rules)
	return set, o.rules, err
}

func (o *colorOptions) members() rules.Members {
	return func(route, _ string) (bool, error) { return slices.Contains(o.whitelisted, route), nil }
}

// color finds where the request enters, and colors it there.
func (o *colorOptions) color(s *config.Settings, set *rules.Set, name string, members rules.Members, target *url.URL, head http.Header) (*colored, error) {
	out := &colored{}
	entry, err := o.enter(out, set, target)
	if err != nil {
		return nil, err
	}
	car, err := s.Carriers()
	if err != nil {
		return nil, err
	}
	r := &rules.Request{Entry: entry, Host: target.Host, Target: target.RequestURI(), Tag: car.ReadRequest(head, target.RequestURI()), Headers: rules.Map(head), Remote: o.remote}
	c := set.Explain(r, members)
	out.tag, out.strip, out.ExplainedColor = c.Tag, c.Strip, printer.NewExplainedColor(name, entry, &c)
	if c.Refuse || c.Ambiguous {
		why := "the request's tag is no lane's name, and the rules say invalid: reject"
		if c.Ambiguous {
			why = ambiguous(&c)
		}
		return nil, &noDataError{msg: "the gateway answers it itself with 400: " + why, hint: "no rule and no instance is asked"}
	}
	return out, nil
}

// ambiguous says why two servers could read a path in two ways.
func ambiguous(c *rules.Coloring) string {
	if c.Readings == [2]string{} {
		return "two servers could read the path in two ways: it has a segment . or .."
	}
	name := func(rule string) string {
		if rule == "" {
			return "no rule"
		}
		return "rule " + rule
	}
	return fmt.Sprintf(`two servers could read the path in two ways: as it stands %s wants it, and with %%2F, \ and // taken for one / %s does`,
		name(c.Readings[0]), name(c.Readings[1]))
}

// enter is the service at which the request enters: that of the gateway's routes, the
// one that was named, or the only one that can be meant.
func (o *colorOptions) enter(out *colored, set *rules.Set, target *url.URL) (string, error) {
	if o.gateway.config != "" || len(o.gateway.routes) > 0 {
		list, err := o.gateway.readRoutes()
		if err != nil {
			return "", err
		}
		if out.routing, err = proxy.NewRouting(list); err != nil {
			return "", err
		}
		route, plain := out.routing.Find(target)
		switch {
		case !plain:
			return "", &noDataError{msg: "the gateway answers it itself with 400: two servers could read the path in two ways", hint: "see docs/gateway.md"}
		case route == nil:
			return "", &noDataError{msg: "no route for " + target.Host + target.Path, hint: "see the gateway's routes"}
		}
		out.fixed = route.Upstreams != nil
		return route.Service, nil
	}
	entries := set.Entries()
	host := strings.ToLower(strings.TrimSuffix(target.Hostname(), "."))
	switch {
	case o.entry != "":
		if !strings.EqualFold(host, o.entry) {
			out.note = fmt.Sprintf("it is explained as it enters at %s (--entry): %s of the URL is the Host that the rules see, and names no service", o.entry, traffic.Printable(target.Host))
		}
		return o.entry, nil
	case slices.Contains(entries, host):
		return host, nil
	case len(entries) == 1:
		return entries[0], nil
	case len(entries) == 0:
		return "", usagef("lane explain --entry SERVICE", "the rules name no entry: say where the request enters")
	}
	return "", usagef("lane explain --entry SERVICE, or --config FILE with the gateway's routes",
		"the rules have several entries: %s", strings.Join(entries, ", "))
}
