package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/relay/facts"
	"lane/tunnel"
)

// ExposeOptions are a local port that is to be reached by plain TCP in the shared
// environment.
type ExposeOptions struct {
	Relay         *Relay
	Lane          lane.Name
	Name          string
	Local         []string // addresses of the local process, in the order in which they are dialled
	Install, Host string
	RuntimeDir    string // where the sockets of this user's sessions are
	// Ready is called when it can be reached: by which name and address.
	Ready func(name, addr string)
	Log   *slog.Logger
	Now   func() time.Time
}

// Expose leads plain connections from the relay to a local port until ctx ends. There
// is no guard before it, and no claim behind it: nobody is routed to it, and who dials
// its address is through.
func Expose(ctx context.Context, o ExposeOptions) error {
	mine, err := expose(ctx, o.RuntimeDir, &o)
	if err != nil {
		return err
	}
	defer mine.end()
	l := &link{o: o.Relay}
	v := newService(Service{Name: o.Name, Local: o.Local}, o.Log, o.Now())
	var missed atomic.Bool // a connection that found nobody was told of, and nobody has come since
	lost := make(chan error, 1)
	shown := &shownToken{o: &o}
	agent, err := tunnel.NewAgent(tunnel.AgentConfig{
		URL: o.Relay.URL, Pin: o.Relay.Pin, Roots: o.Relay.Roots, Token: shown.getFor(l), Proxy: o.Relay.Proxy, Client: o.Relay.Client,
		Install: o.Install, Host: o.Host, Log: o.Log,
		Handle: func(ctx context.Context, _ tunnel.Claim, _ tunnel.Header, st tunnel.Stream) {
			conn, err := dialLocal(ctx, o.Local)
			if err != nil {
				if !missed.Swap(true) {
					o.Log.Warn("a connection was refused: nothing listens on "+strings.Join(o.Local, " or "), "error", err)
				}
				st.Abort(502, "lane-local-down: nothing listens on "+strings.Join(o.Local, " or "))
				return
			}
			defer conn.Close()
			_ = tunnel.Join(ctx, conn, st)
		},
		Notify: func(e tunnel.Event) {
			switch e.What {
			case tunnel.Connected:
				shown.taken()
			case tunnel.ClaimLost:
				select {
				case lost <- e.Err:
				default:
				}
			case tunnel.Disconnected:
				o.Log.Warn("the relay is lost", "error", e.Err)
			}
		},
	})
	if err != nil {
		return err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(running) }()
	finish := func(err error) error { // what it claims, it gives up first
		end()
		return errors.Join(err, l.explain(<-ended))
	}

	claim := tunnel.Claim{ID: "tcp." + o.Name, Lane: string(o.Lane), Service: o.Name, Kind: tunnel.TCP,
		Facts: map[string]string{facts.Started: o.Now().Format(timeForm)}}
	limit, cancel := context.WithTimeout(ctx, linkLimit)
	defer cancel()
	got, err := agent.Claim(limit, claim)
	if err != nil {
		if ctx.Err() != nil {
			return finish(ctx.Err())
		}
		// Why there is no tunnel is the agent's to say, if it has given up.
		select {
		case gone := <-ended:
			if gone != nil {
				err = gone
			}
			return l.explain(err)
		default:
			return finish(l.explain(err))
		}
	}
	o.Ready(got[facts.Registered], got[facts.Address])
	tick := time.NewTicker(lookOpen)
	defer tick.Stop()
	shown.look(ctx, agent)
	first := true
	for looked := time.Now(); ; first = false {
		if time.Since(looked) >= tokenLook { // a token that was replaced is good from then on
			looked = time.Now()
			shown.look(ctx, agent)
		}
		st := tunnel.State{Ready: true}
		switch err := v.look(ctx); {
		case err == nil:
			missed.Store(false)
		default:
			if first && ctx.Err() == nil {
				o.Log.Warn(err.Error() + ": connections are refused until something does")
			}
			st = tunnel.State{Note: cut(err.Error(), 200)}
		}
		if ctx.Err() == nil {
			agent.Report(claim.ID, st)
		}
		select {
		case <-tick.C:
		case err := <-ended:
			return l.explain(err)
		case why := <-lost:
			return finish(&consul.ClaimLostError{Lane: o.Lane, Service: o.Name, Text: fmt.Sprint(why)})
		case <-ctx.Done():
			if agent.Remote() == "" {
				o.Log.Warn("the relay is away: it is tried once more, for some seconds, so that it removes what it has registered")
			}
			err := finish(ctx.Err())
			if len(agent.Left()) > 0 {
				err = errors.Join(err, &LeftBehindError{What: []error{&FarLeftoverError{Relay: o.Relay.URL, Lane: o.Lane, Service: o.Name,
					ID: got[facts.ID], Name: got[facts.Registered], Exposed: true, Err: errors.New("it does not answer")}}})
			}
			return err
		}
	}
}

// shownToken is the token of an exposed port, which outlives it when it is replaced.
type shownToken struct {
	o    *ExposeOptions
	told string // what was said last, by what it is about

	mu   sync.Mutex
	read string    // last
	ends time.Time // of the one that the relay has taken; zero: not known
	bad  string    // one that it has not taken
}

func (t *shownToken) get(ctx context.Context) (string, error) {
	text, err := t.o.Relay.Token(ctx)
	if err == nil {
		t.mu.Lock()
		t.read = text
		t.mu.Unlock()
	}
	return text, err
}

// getFor is get that lets a link know what was shown.
func (t *shownToken) getFor(l *link) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		text, err := t.get(ctx)
		if err == nil {
			l.mu.Lock()
			l.read, l.asked = text, true
			l.mu.Unlock()
		}
		return text, err
	}
}

// taken notes that the relay has taken the token that was read last.
func (t *shownToken) taken() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends = t.o.Relay.ends(t.read)
}

// look shows the relay a new token, if there is one, and says once each thing that is wrong
// with what lies there: that it cannot be read, that the relay does not take it, that it
// ends.
func (t *shownToken) look(ctx context.Context, agent *tunnel.Agent) {
	limit, cancel := context.WithTimeout(ctx, linkLimit)
	defer cancel()
	renewed, err := agent.Renew(limit)
	var no *tunnel.Refusal
	switch {
	case renewed:
		t.taken()
	case errors.As(err, &no):
		t.mu.Lock()
		t.bad = t.read
		t.mu.Unlock()
		t.say("the relay does not take the new token, and the old one is used until its end: "+no.Text, no.Text)
		return
	}
	t.mu.Lock()
	ends, bad := t.ends, t.bad
	t.mu.Unlock()
	t.say(ending(ctx, t.o.Relay.Token, ends, bad, t.o.Now(), "what is exposed"))
}

func (t *shownToken) say(text, about string) {
	if text != "" && about != t.told {
		t.o.Log.Warn(text)
	}
	t.told = about
}

// dialLocal connects to the first address that takes a connection.
func dialLocal(ctx context.Context, addrs []string) (conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	var d net.Dialer
	for _, a := range addrs {
		if conn, err = d.DialContext(ctx, "tcp", a); err == nil {
			return conn, nil
		}
	}
	return nil, err
}
