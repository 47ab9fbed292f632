package session

import (
	"context"
	"errors"
	"maps"
	"slices"

	"lane/pkg/guardian"
	"lane/tunnel"
)

// ward is what the guardian needs to give up, through the relay, what this session
// holds; nil while there is no token, and nothing to give up.
func (l *link) ward() *guardian.Relay {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked || len(l.far) == 0 {
		return nil
	}
	w := &guardian.Relay{URL: l.o.URL, Pin: l.o.Pin, Files: l.o.Files, Token: l.read, Install: l.s.o.Install, Host: l.s.o.Host, Agent: l.agent.ID()}
	for _, id := range slices.Sorted(maps.Keys(l.far)) {
		c := l.far[id].claim
		w.Claims = append(w.Claims, guardian.FarClaim{Lane: c.Lane, Service: c.Service, Join: c.Join})
	}
	return w
}

// Yield gives up, through a relay, what a session that has died held by it. Without the
// ID of its agent, that is what its install has, whose tunnel is lost. A
// *RelayRefusedError says that there is nothing to give up any more.
func Yield(ctx context.Context, by *Relay, w guardian.Relay) error {
	agent, err := tunnel.NewAgent(tunnel.AgentConfig{URL: by.URL, Pin: by.Pin, Roots: by.Roots, Token: by.Token, Proxy: by.Proxy, Client: by.Client,
		ID: w.Agent, Install: w.Install, Host: w.Host,
		Handle: func(_ context.Context, _ tunnel.Claim, _ tunnel.Header, st tunnel.Stream) {
			st.Abort(404, "this session has died")
		}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, linkLimit)
	defer cancel()
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(running) }()
	var all []error
	for _, c := range w.Claims {
		_, err := agent.Claim(ctx, tunnel.Claim{ID: "http." + c.Service, Lane: c.Lane, Service: c.Service, Kind: tunnel.HTTP, Join: c.Join,
			End: true, Takeover: w.Agent == ""})
		all = append(all, ExplainRelay(by.URL, err))
	}
	end()
	_ = <-ended // the same that the claims got
	return errors.Join(all...)
}
