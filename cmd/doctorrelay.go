package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"runtime"

	"lane/pkg/childenv"
	"lane/pkg/consul"
	"lane/pkg/doctor"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/relay/facts"
	"lane/pkg/session"
	"lane/pkg/token"
	"lane/tunnel"
)

// relayed says that the settings have a relay.
func (d *diagnosis) relayed() bool { return d.invalid == nil && d.settings.Relay != "" }

// checkRelay makes one tunnel to the relay of the settings, which claims nothing, and
// looks at the token for it.
func (d *diagnosis) checkRelay(ctx context.Context) []doctor.Finding {
	if !d.relayed() {
		return nil
	}
	r := doctor.Relay{URL: d.settings.Relay, Source: d.settings.Source("relay"), ForeignDo: session.ForeignHint}
	t := doctor.Token{Source: d.tokenSource(), Now: d.f.now(), Do: newOneHint}
	text, err := d.f.relayToken(d.settings)(ctx)
	if err != nil {
		t.Err = err
		_, t.Do, _ = ladder(err)
		return t.Findings() // without one there is no tunnel
	}
	by, err := d.f.relayOf(d.settings, d.upstream())
	if err != nil {
		r.Err = err
		_, r.Do, _ = ladder(err)
		return r.Findings()
	}
	r.Pinned, r.NoToken = by.Pin != "", text == ""
	if by.Proxy != nil {
		r.Proxy = by.Proxy.Host
	}
	got, err := d.tryRelay(ctx, by)
	r.Clock, r.Before, r.After, r.RTT = got.Clock, got.Before, got.After, got.RTT
	if c := got.Certificate; c != nil {
		r.Subject, r.Issuer, r.NotAfter = c.Subject.String(), c.Issuer.String(), c.NotAfter
	}
	if err == nil {
		r.Foreign = d.foreign(ctx, by.URL, got.Facts)
	}
	if err != nil {
		r.Err = session.ExplainRelay(by.URL, err)
		var no *session.RelayRefusedError
		if errors.As(r.Err, &no) {
			no.ByCertificate, r.Full = text == "", no.Code == 429
		}
		_, r.Do, _ = ladder(r.Err)
	}
	if !got.Clock.IsZero() {
		t.Now = got.Clock
	}
	if text == "" { // then there is a certificate, which a relay may take alone
		if err != nil {
			return r.Findings()
		}
		t.Source, t.Certificate, t.Ends = named(d.settings, "relay_cert_file"), by.Client.Leaf.Subject.CommonName, by.Client.Leaf.NotAfter
		return append(r.Findings(), t.Findings()...)
	}
	g, ok := token.Look(text)
	t.Unread, t.User, t.Lanes, t.Services, t.Ends = !ok, g.User, g.Lanes, g.Services, g.Expires
	if d.settings.Lane != "" {
		t.Lane = d.settings.Lane
		for _, s := range d.services() {
			if ok && t.Rejected == "" && g.Allow("", t.Lane, s) != nil {
				t.Rejected = s
			}
		}
	}
	return append(r.Findings(), t.Findings()...)
}

// foreign says that the relay is registered in another registry than that of the
// settings; nil, too, where nobody can tell.
func (d *diagnosis) foreign(ctx context.Context, url string, said map[string]string) error {
	id := said[facts.Announced]
	if id == "" || d.client == nil {
		return nil
	}
	shown, err := d.client.ShowsInstance(ctx, consul.RelayService, id)
	if err != nil || shown {
		return nil // what is wrong with the registry has a line of its own
	}
	return &session.ForeignError{Relay: url, Registry: d.client.Address(), Theirs: said[facts.Datacenter], Ours: d.client.OwnDatacenter(ctx)}
}

// newOneHint is what to do about a token.
const newOneHint = "a new token is made by whoever runs the relay: lane relay token create --user NAME"

// tokenSource is where the token for the relay comes from.
func (d *diagnosis) tokenSource() string {
	if d.f.getenv(relayTokenVar) != "" {
		return relayTokenVar
	}
	return d.settings.RelayTokenFile
}

// upstream is the proxy of the environment, if it is not one of ours.
func (d *diagnosis) upstream() (up proxy.Upstream) {
	var own []string
	for _, s := range d.seen.Running {
		own = append(own, s.Status.Proxy)
	}
	up.HTTP, up.HTTPS, up.NoProxy = childenv.Inherited(d.f.environ, runtime.GOOS == "windows", own...)
	return up
}

func (d *diagnosis) tryRelay(ctx context.Context, by *session.Relay) (tunnel.Probed, error) {
	host, _ := os.Hostname() // shown only
	a, err := tunnel.NewAgent(tunnel.AgentConfig{URL: by.URL, Pin: by.Pin, Roots: by.Roots, Token: by.Token, Client: by.Client, Proxy: by.Proxy,
		Install: "doctor-" + rand.Text(), Host: host, // a diagnosis makes no install id
		Handle: func(_ context.Context, _ tunnel.Claim, _ tunnel.Header, s tunnel.Stream) {
			s.Abort(404, "nothing is claimed here")
		}})
	if err != nil {
		return tunnel.Probed{}, err
	}
	return a.Probe(ctx)
}

// checkClaims finds who else holds what is to be served.
func (d *diagnosis) checkClaims(ctx context.Context) []doctor.Finding {
	if !d.reachable || d.settings.Lane == "" || len(d.settings.Services) == 0 {
		return nil
	}
	var c doctor.Claims
	here, err := d.f.remainsHere(ctx)
	if err != nil {
		c.Err = err
		return c.Findings()
	}
	claims, err := d.client.Claims(ctx, lane.Name(d.settings.Lane))
	c.Err = err
	for _, name := range d.services() {
		for _, cl := range claims {
			if cl.Service == name && cl.Session != "" && (here.install == "" || cl.Install != here.install) {
				c.Held = append(c.Held, heldText(cl))
			}
		}
	}
	return c.Findings()
}

// heldText says who holds a claim, as the refusal does.
func heldText(cl lane.Claim) string {
	text := cl.Service + " in lane " + string(cl.Lane) + " is held by " + lane.Holder(cl.Owner, cl.Host)
	if cl.Relay != "" {
		text += ", by the relay " + cl.Relay
	}
	return text
}
