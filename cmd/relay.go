package cmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/metrics"
	"lane/pkg/relay"
	"lane/pkg/session"
	"lane/pkg/token"
	"lane/tunnel"

	"github.com/spf13/cobra"
)

type relayOptions struct {
	listen    string
	cert, key string
	clientCA  string
	noToken   bool
	hosts     []string
	tokenKey  string
	ports     relay.Ports
	deny      []string
	audit     string
	claimTTL  time.Duration
	limits    tunnel.Limits
	settings  func() []config.Flag
	observed  observedOptions
}

func newRelayCmd(f *factory) *cobra.Command {
	o := &relayOptions{}
	c := &cobra.Command{
		Use:   "relay",
		Short: "Run the tunnel's end in the shared environment, for laptops that it cannot reach",
		Long: `Run the end of the tunnel that stands in the shared environment. A laptop that the
environment cannot reach connects to it (lane up --relay); the relay registers what
the laptop claims with an address and a port of its own, and leads the lane's
requests through the tunnel. The laptop's user needs a token of the relay's, and no
right to write to Consul.

Without --cert the relay makes a certificate, once, and prints its fingerprint, which
clients pin. It dials nothing that a client names: only instances that the registry
holds, for sessions with --via relay.`,
		Example: `  lane relay --listen 10.1.2.3:7443
  lane relay --listen :443 --cert relay.pem --key relay-key.pem --advertise 10.1.2.3
  lane relay token create --user alice --out token
  lane relay token revoke --user alice`,
		Args: subcommands,
		RunE: func(c *cobra.Command, _ []string) error { return runRelay(c.Context(), f, o) },
	}
	addFlag(c, &o.listen, "listen", "127.0.0.1:7443", anAddress, "address for tunnels; port 0 takes a free one")
	addFlag(c, &o.cert, "cert", "", aFile, "file with the certificate (default: one that is made here, for clients to pin)")
	addFlag(c, &o.key, "key", "", aFile, "file with its key, mode 0600")
	addFlag(c, &o.clientCA, "client-ca", "", aFile, "file of the authorities whose client certificates are asked for, beside the token")
	c.Flags().BoolVar(&o.noToken, "without-token", false, "let in by such a certificate alone: its common name is the user")
	addFlags(c, &o.hosts, "host", checked("HOST", config.CheckHost), "host in a certificate that is made here")
	addFlag(c, &o.tokenKey, "token-key", "", aFile, "file with the public key of tokens (default: that of lane relay token on this machine)")
	addFlag(c, &o.ports, "ports", "21000-21999", kind[relay.Ports]{"RANGE", parsePorts}, "ports of which each claim gets one, at the advertised address")
	addFlags(c, &o.deny, "deny", checked("SERVICE", config.CheckOwnName), "service that nobody may claim, whatever a token says")
	addFlag(c, &o.audit, "audit", "", or(aNewFile, "-"), "file for a JSON line of each link and claim; - is stdout (default: stderr)")
	addFlag(c, &o.claimTTL, "claim-ttl", "10m", duration(10*time.Second, 24*time.Hour), "how long a claim outlives its laptop, and this relay")
	limitFlags(c, &o.limits)
	o.observed.flags(c, consul.RelayService)
	o.settings = placeFlags(c, setting{"advertise", "advertise", "IP", "address at which claims are registered (default: the one from which Consul is reached)"})
	c.AddCommand(newTokenCmd(f))
	return c
}

// relayDir is where a relay's keys are.
func (f *factory) relayDir() (string, error) {
	state, err := config.StateDir(f.system())
	return filepath.Join(state, "relay"), err
}

func runRelay(ctx context.Context, f *factory, o *relayOptions) error {
	secure, err := o.tls(f)
	if err != nil {
		return err
	}
	verifier, err := o.verifier(f)
	if err != nil {
		return err
	}
	audit, closeAudit, err := o.openAudit(f)
	if err != nil {
		return err
	}
	defer closeAudit()
	at, err := f.place(ctx, o.settings())
	if err != nil {
		return err
	}
	defer at.client.Close()
	ip, err := o.address(ctx, at)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return &session.PortError{What: "the relay", Addr: o.listen, From: "--listen", Err: err}
	}
	figures := &relay.Figures{}
	seen, err := f.observe(at, &o.observed, &router{as: consul.RelayService, front: announced(ln.Addr(), ip), relay: func() metrics.Relay {
		r := metrics.Relay{Refused: figures.Refused()}
		r.Links, r.Claims, r.Streams = figures.Held()
		r.Limited = figures.Limited()
		for _, l := range figures.Traffic() {
			r.Laptops = append(r.Laptops, metrics.RelayLaptop{User: l.Subject, Host: l.Host, In: l.In, Out: l.Out})
		}
		return r
	}})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	host, _ := os.Hostname() // shown only
	opts := relay.Options{
		Listener: ln, TLS: secure, Client: at.client, Watcher: seen.watcher, Verifier: verifier,
		Name: net.JoinHostPort(host, strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)), Announced: seen.announcedAs, Advertise: ip, Ports: o.ports, ClaimTTL: o.claimTTL,
		Limits: o.limits, WithoutToken: o.noToken, Deny: o.deny, Policy: at.policy(), Carriers: &at.carriers, Caller: at.caller(), Sticky: at.s.StickyKey(), Browsers: browsers(at.s), Probes: at.s.Probes,
		Log: seen.log, Meter: seen.meter, Audit: audit, Figures: figures, Beside: seen.run, Force: f.force, Logger: f.logger(slog.LevelWarn), Now: f.now,
	}
	if seen.admin != nil {
		opts.Own = []string{seen.admin.Addr()}
	}
	opts.Ready = func() {
		seen.ready(func() { // who has closed it does not read it
			_, _ = fmt.Fprintf(f.io.Out, "relay at wss://%s\nfingerprint %s\nclaims at %s:%d-%d\n%s",
				strings.TrimPrefix(reached(ln.Addr().String()), "http://"), tunnel.Fingerprint(secure.Certificates[0].Certificate[0]), ip, o.ports.First, o.ports.Last, seen.addr())
		})
	}
	return relay.Run(ctx, opts) // a signal is how its supervisor ends it: that is no failure
}

// announced is where a relay is found: a wildcard listener has the address at which
// its claims are.
func announced(at net.Addr, ip netip.Addr) net.Addr {
	tcp := *at.(*net.TCPAddr)
	if tcp.IP.IsUnspecified() {
		tcp.IP = ip.AsSlice()
	}
	return &tcp
}

func parsePorts(text string) (relay.Ports, error) {
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 16)
	last, err2 := strconv.ParseUint(to, 10, 16)
	if err != nil || err2 != nil || first == 0 || last < first {
		return relay.Ports{}, fmt.Errorf("%q is no range of ports such as 21000-21999", text)
	}
	return relay.Ports{First: int(first), Last: int(last)}, nil
}

// tls is how the relay speaks: by the certificate that it was given, or by its own.
func (o *relayOptions) tls(f *factory) (*tls.Config, error) {
	if (o.cert == "") != (o.key == "") {
		return nil, usagef("give both, or none: then one is made here", "--cert and --key go together")
	}
	if o.noToken && o.clientCA == "" {
		return nil, usagef("--client-ca FILE names the authorities", "--without-token goes with --client-ca: a certificate takes the token's place")
	}
	if o.cert != "" && len(o.hosts) > 0 {
		return nil, usagef("leave one of the two out", "--host is for a certificate that is made here, and --cert gives one")
	}
	var cert tls.Certificate
	var err error
	if o.cert != "" {
		cert, err = keyPair("--cert", o.cert, "--key", o.key)
	} else {
		var dir string
		if dir, err = f.relayDir(); err == nil {
			cert, err = relay.Certificate(dir, o.hosts, f.now())
		}
	}
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if o.clientCA == "" {
		return c, nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs, err = roots("--client-ca", o.clientCA)
	return c, err
}

// verifier reads the public key of tokens; on the machine where they are made, that
// key is made at its first use.
func (o *relayOptions) verifier(f *factory) (*token.Verifier, error) {
	path := o.tokenKey
	if path == "" {
		dir, err := f.relayDir()
		if err != nil {
			return nil, err
		}
		k := token.Keeper{Dir: dir}
		if _, err := os.Stat(k.PublicPath()); err != nil {
			if _, err := k.Key(); err != nil {
				return nil, err
			}
		}
		path = k.PublicPath()
	}
	key, err := token.ReadPublic(path)
	if err != nil && o.tokenKey != "" {
		return nil, badFile("--token-key", "name a copy of the public key that `lane relay token create` leaves in relay/ of its state directory", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the public key of tokens: %w", err)
	}
	return token.NewVerifier(key, f.now), nil
}

// openAudit opens the log of links and claims.
func (o *relayOptions) openAudit(f *factory) (*slog.Logger, func(), error) {
	var to io.Writer = f.io.Err
	done := func() {}
	switch o.audit {
	case "":
	case "-":
		to = f.io.Out
	default:
		file, err := os.OpenFile(o.audit, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, usagef(newFileHint, "--audit: %v", err)
		}
		to, done = file, func() { _ = file.Close() } // each line is written at once
	}
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug})), done, nil
}

// address is where claims are registered.
func (o *relayOptions) address(ctx context.Context, at *place) (netip.Addr, error) {
	if at.s.Advertise != "" {
		ip, err := netip.ParseAddr(at.s.Advertise)
		if err != nil {
			return ip, err
		}
		return ip.Unmap(), nil
	}
	ip, err := at.client.LocalIP(ctx)
	if err != nil {
		return ip, fmt.Errorf("find this machine's address: %w", err)
	}
	return ip, nil
}
