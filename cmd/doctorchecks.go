package cmd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lane/pkg/childenv"
	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/doctor"
	"lane/pkg/listening"
)

// diagnosis brings the facts to the checks. What it holds is set before they run, but
// for reachable, which the first stage sets for the second.
type diagnosis struct {
	f        *factory
	o        *doctorOptions
	settings *config.Settings // the defaults, where they are invalid
	invalid  error
	client   *consul.Client
	closed   error // there is no client
	seen     control.Seen
	blind    error // this machine's sessions cannot be seen
	// reachable says that the registry answers and has a leader.
	reachable bool
}

func newDiagnosis(f *factory, o *doctorOptions) *diagnosis {
	d := &diagnosis{f: f, o: o}
	cfg := consul.Config{Getenv: f.getenv}
	if d.settings, d.invalid = f.settings(given{lane: o.lane, services: o.services}); d.invalid != nil {
		d.settings = &config.Settings{Proxy: "127.0.0.1:7474", Register: config.Auto}
	} else {
		cfg = f.consulConfig(d.settings)
	}
	d.client, d.closed = consul.Open(cfg)
	dir, err := config.RuntimeDir(f.system())
	if err == nil {
		// No directory is no session; it is not made here.
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		d.seen, err = control.Look(ctx, dir)
	}
	d.blind = err
	return d
}

func (d *diagnosis) close() {
	if d.client != nil {
		d.client.Close()
	}
}

// services are the names of the services that it is about.
func (d *diagnosis) services() (names []string) {
	for _, v := range d.settings.Services {
		names = append(names, v.Name)
	}
	return names
}

func (d *diagnosis) checkSettings(context.Context) []doctor.Finding {
	var s doctor.Settings
	var invalid *config.Invalid
	switch {
	case errors.As(d.invalid, &invalid):
		for _, p := range invalid.Problems {
			s.Wrong = append(s.Wrong, doctor.Setting{Key: p.Key, Value: p.Why, Source: p.Source})
		}
	case d.invalid != nil:
		s.Err = d.invalid
	}
	for _, e := range d.settings.Entries() {
		if e.Source != "default" && e.Value != "" {
			s.Given = append(s.Given, doctor.Setting{Key: e.Key, Value: e.Value, Source: e.Source})
		}
	}
	s.Idle = d.settings.Warnings()
	return s.Findings()
}

func (d *diagnosis) checkRegistry(ctx context.Context) []doctor.Finding {
	r := doctor.Registry{Err: d.closed}
	if d.client == nil {
		var wrong *consul.ValidationError
		r.Wrong = errors.As(d.closed, &wrong)
		return r.Findings()
	}
	r.Address, r.Source = d.client.Address(), d.settings.Source("consul.address")
	r.Leader, r.Err = d.client.Leader(ctx)
	var away *consul.UnreachableError
	if errors.As(r.Err, &away) {
		r.Err = away.Err // the rest of it stands beside
	}
	if d.reachable = r.Err == nil && r.Leader != ""; d.reachable {
		r.Version, _ = d.client.Version(ctx) // shown if the token may read it
	}
	return r.Findings()
}

func (d *diagnosis) checkRights(ctx context.Context) []doctor.Finding {
	if !d.reachable {
		return nil
	}
	r := doctor.Rights{Policy: "`lane doctor --policy`"}
	if d.relayed() {
		r.Policy = "`lane doctor --policy=relayed`"
	}
	var rejected *consul.TokenError
	r.Token, r.Policies, r.Unknown = d.client.Token(ctx)
	switch {
	case errors.Is(r.Unknown, consul.ErrNoACL):
		r.Off = true
	case errors.As(r.Unknown, &rejected):
		r.Rejected = rejected
	}
	if r.Unknown != nil {
		return r.Findings()
	}
	rights := d.rights()
	r.Asked, r.NoLane = len(rights), d.settings.Lane == "" && len(d.settings.Services) > 0 && !d.relayed()
	var missing []consul.Right
	missing, r.Unknown = d.client.Missing(ctx, rights)
	for _, m := range missing {
		r.Missing = append(r.Missing, doctor.Right{Name: m.String(), Without: m.Why})
	}
	return r.Findings()
}

// rights are those that `lane up` needs with these settings. Without a lane, the names
// that have it in them are not known.
func (d *diagnosis) rights() []consul.Right {
	if d.relayed() {
		return consul.Reads() // the relay claims and registers
	}
	rights, err := d.o.directRights(d.settings, d.services())
	if err == nil {
		return rights
	}
	rights = consul.DirectRights("x", d.services(), d.settings.Register)
	return slices.DeleteFunc(rights, func(r consul.Right) bool {
		return strings.HasPrefix(r.Name, "lane/declared/x/") || strings.HasPrefix(r.Name, "lane-x-")
	})
}

// freshConnections are how many times it is asked which agent answers.
const freshConnections = 5

func (d *diagnosis) checkAgents(ctx context.Context) []doctor.Finding {
	if !d.reachable {
		return nil
	}
	a := doctor.Agents{Address: d.client.Address()}
	a.Nodes, a.Err = d.client.NodeNames(ctx, freshConnections)
	var denied *consul.DeniedError
	a.Denied = errors.As(a.Err, &denied)
	return a.Findings()
}

func (d *diagnosis) checkClock(ctx context.Context) []doctor.Finding {
	if !d.reachable {
		return nil
	}
	c := doctor.Clock{Before: d.f.now()}
	c.Theirs, c.Err = d.client.Clock(ctx)
	c.After, c.Missing = d.f.now(), c.Theirs.IsZero()
	return c.Findings()
}

func (d *diagnosis) checkLeftovers(ctx context.Context) []doctor.Finding {
	if !d.reachable {
		return nil
	}
	var l doctor.Leftovers
	here, err := d.f.remainsHere(ctx)
	if err == nil {
		var there consul.Remains
		if there, err = d.client.Remains(ctx); err == nil {
			for _, it := range planGC(there, here) {
				switch {
				case it.Kept != "" && !it.Failed: // it may live
				case it.own(here):
					l.Own = append(l.Own, it.ID)
				default:
					l.Others = append(l.Others, it.ID)
				}
			}
		}
	}
	l.Err = err
	return l.Findings()
}

// checkSwitches finds only what is wrong with them; whether they may be read is one of
// the rights.
func (d *diagnosis) checkSwitches(ctx context.Context) []doctor.Finding {
	if !d.reachable {
		return nil
	}
	var s doctor.Switches
	var bad consul.UnreadableSwitchErrors
	if _, err := d.client.Switches(ctx); errors.As(err, &bad) {
		for _, u := range bad {
			s.Unreadable = append(s.Unreadable, doctor.Unreadable{Key: u.Key, What: u.Error(), Do: unreadHint(u)})
		}
	}
	return s.Findings()
}

func (d *diagnosis) checkConsumers(ctx context.Context) (all []doctor.Finding) {
	if !d.reachable || len(d.settings.Services) == 0 {
		return nil
	}
	names, err := d.client.Services(ctx)
	for _, v := range d.settings.Services {
		c := doctor.Consumed{Service: v.Name, Services: names, Isolated: d.settings.Register == config.Isolated,
			Auto: d.settings.Register == config.Auto, Err: err}
		if err == nil && !c.Isolated {
			c.Tags, c.Meta, c.Err = d.client.Marks(ctx, v.Name)
		}
		all = append(all, c.Findings()...)
	}
	return all
}

func (d *diagnosis) checkSessions(context.Context) []doctor.Finding {
	s := doctor.Sessions{Dead: d.seen.Dead, Silent: d.seen.Silent, Err: d.blind}
	for _, found := range d.seen.Running {
		var names []string
		for _, v := range found.Status.Services {
			names = append(names, v.Name)
		}
		s.Running = append(s.Running, strings.TrimSpace(string(found.Status.Lane)+" "+strings.Join(names, ", ")))
	}
	return s.Findings()
}

func (d *diagnosis) checkPorts(ctx context.Context) (all []doctor.Finding) {
	proxy := doctor.Port{For: "the coloring proxy", Addr: d.settings.Proxy, Source: d.settings.Source("proxy"), Proxy: true}
	proxy.Fixed = proxy.Source != "default" && proxy.Source != ""
	for _, s := range d.seen.Running {
		if doctor.At(s.Status.Proxy) == doctor.At("http://"+proxy.Addr) {
			proxy.Ours = string(s.Status.Lane)
		}
	}
	if _, port, _ := net.SplitHostPort(proxy.Addr); port != "0" { // 0 is any free one
		all = append(all, d.port(ctx, proxy, proxy.Addr)...)
	}
	for _, v := range d.settings.Services {
		p := doctor.Port{For: v.Name, Addr: v.Addrs()[0], Source: d.settings.Source("services")}
		all = append(all, d.port(ctx, p, v.Addrs()...)...)
	}
	return all
}

// port looks who listens at the first of some addresses where somebody does.
func (d *diagnosis) port(ctx context.Context, p doctor.Port, addrs ...string) []doctor.Finding {
	p.GOOS = runtime.GOOS
	for _, addr := range addrs {
		conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close() // nothing was said
			p.Open, p.Addr = true, addr
			break
		}
	}
	_, port, _ := net.SplitHostPort(p.Addr)
	p.Port, _ = strconv.Atoi(port) // the settings have checked it
	if p.Open {
		p.Holder = listening.Holder(p.Port)
	}
	return p.Findings()
}

func (d *diagnosis) checkProxies(context.Context) []doctor.Finding {
	windows := runtime.GOOS == "windows"
	p := doctor.Proxies{Get: d.f.getenv, Fold: windows, Sessions: map[string]string{}}
	for _, s := range d.seen.Running {
		p.Sessions[doctor.At(s.Status.Proxy)] = string(s.Status.Lane)
	}
	// As a program that a session starts would have it.
	vars := childenv.Vars(d.f.environ, childenv.Session{Proxy: "http://" + d.settings.Proxy, Windows: windows})
	p.Bypassed = childenv.Bypassed(vars, d.services())
	return p.Findings()
}

func (d *diagnosis) checkAddress(ctx context.Context) []doctor.Finding {
	a := doctor.Address{Source: d.settings.Source("advertise")}
	switch {
	case d.relayed(): // nothing is registered under an address of this machine
		a.IP = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		return slices.DeleteFunc(d.ways(ctx, a), func(f doctor.Finding) bool { return f.Check == "address" && f.Level != doctor.Wrong })
	case d.settings.Advertise != "":
		a.IP, a.Err = netip.ParseAddr(d.settings.Advertise)
	case d.reachable:
		a.Source = "the way to the registry"
		a.IP, a.Err = d.client.LocalIP(ctx)
	}
	if a.Err != nil || !a.IP.IsValid() {
		return a.Findings()
	}
	a.Far = d.client != nil && !localAddress(d.client.Address())
	return d.ways(ctx, a)
}

// localAddress reports whether a registry's address is this machine's loopback, or a
// socket.
func localAddress(registry string) bool {
	_, rest, _ := strings.Cut(registry, "://")
	host, _, err := net.SplitHostPort(rest)
	if err != nil || host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
