package session

import (
	"context"
	"crypto/tls"

	"lane/pkg/ca"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/tracemap"
)

// transport is the engine that all fronts of the session share.
func (s *session) transport(ctx context.Context, router *lane.Router) (*proxy.Transport, error) {
	names, err := proxy.NewNames(proxy.NamesConfig{Hosts: s.o.Hosts, Colored: s.o.Colored, Datacenter: s.client.OwnDatacenter(ctx)})
	if err != nil {
		return nil, err
	}
	return proxy.NewTransport(proxy.Config{
		Registry: s.watcher, Router: router, Carriers: &s.o.Carriers, Names: names, Lane: s.o.Lane,
		Caller: lane.Caller{Env: s.o.Env, Tenant: s.o.Tenant, Zone: s.o.Zone}, Sticky: s.o.Sticky, Browsers: s.o.Browsers,
		Log: s.log, Counts: &s.counts, KeepHeaders: true, KeepBodies: s.o.Bodies, Now: s.o.Now, Logger: s.o.Log,
		Own:      tracemap.New(tracemap.Options{Size: ownTraces}),
		Upstream: s.o.Upstream, Roots: s.o.Roots, Via: s.via(), Away: s.relayAway(),
	})
}

// ownTraces is how many traces of its lane a session remembers: those of the last
// minutes, by which it tells that a tag was lost.
const ownTraces = 2000

// forwardFor is the coloring proxy.
func (s *session) forwardFor(t *proxy.Transport) (*proxy.Forward, error) {
	cfg := proxy.ForwardConfig{Drain: s.longestDrain(), Force: s.over}
	if len(s.o.Opens) == 0 {
		return proxy.NewForward(t, cfg), nil
	}
	issuer, err := ca.NewIssuer(s.o.Authority, s.o.Now)
	if err != nil {
		return nil, err
	}
	cfg.TLS = func(host, service string) *tls.Config {
		// Another name of a listed service may be one that the CA was not made for: no
		// client would take the certificate.
		if !proxy.Opens(s.o.Opens, host, service) || !s.o.Authority.Permits(host) {
			return nil
		}
		return issuer.Config(host)
	}
	return proxy.NewForward(t, cfg), nil
}
