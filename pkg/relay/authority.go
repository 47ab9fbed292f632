package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/relay/facts"
	"lane/pkg/token"
	"lane/tunnel"
)

// authority is the relay as the tunnel asks it.
type authority struct{ r *relay }

var _ tunnel.Authority = authority{}

func refuse(code int, format string, a ...any) *tunnel.Refusal {
	return &tunnel.Refusal{Code: code, Text: fmt.Sprintf(format, a...)}
}

// Authenticate lets in who has a good token that nobody has revoked, and whose
// certificate, if there is one, bears the same name; with WithoutToken also who shows a
// certificate alone.
func (a authority) Authenticate(_ context.Context, c tunnel.Credentials) (tunnel.Identity, error) {
	g, err := a.r.admit(c)
	if err != nil {
		a.r.o.Figures.refused.Add(1)
		return tunnel.Identity{}, numbered(err, a.r.turnedAway(c.Remote, err))
	}
	return tunnel.Identity{Subject: g.User, TokenID: g.ID, Shown: shownWord(g.ID), Expires: g.Expires.Add(expireGrace), Private: g}, nil
}

// admitted hears of who has a tunnel, or goes on with another token.
func (r *relay) admitted(h tunnel.Holder, remote net.Addr, renewed bool) {
	msg := "link"
	if renewed {
		msg = "token renewed"
	}
	r.o.Audit.Info(msg, "user", h.Subject, "token", h.TokenID, "host", h.Host, "remote", remote.String())
}

// newRequest is an id of something that was refused: whoever was refused is told it, and
// the audit log has it.
func newRequest() string { return rand.Text()[:12] }

// numbered is a refusal that says by which id it was written down.
func numbered(err error, request string) *tunnel.Refusal {
	no := tunnel.Refusal{Code: http.StatusServiceUnavailable, Text: err.Error()}
	var is *tunnel.Refusal
	if errors.As(err, &is) {
		no = *is
	}
	no.Request = request
	return &no
}

// denied hears of what the tunnel refuses to who has a good token.
func (r *relay) denied(h tunnel.Holder, remote net.Addr, c *tunnel.Claim, no *tunnel.Refusal) (request string) {
	r.o.Figures.refused.Add(1)
	who := []any{"user", h.Subject, "token", h.TokenID, "host", h.Host}
	if c == nil {
		return r.turnedAway(remote, no, who...)
	}
	request = newRequest()
	r.o.Audit.With(who...).Warn("refused", "lane", c.Lane, "service", c.Service, "kind", string(c.Kind), "install", h.Install, "why", no.Text, "request", request)
	return request
}

// unproven hears of who has no client certificate that is taken.
func (r *relay) unproven(remote net.Addr, no *tunnel.Refusal) {
	r.o.Figures.refused.Add(1)
	r.turnedAway(remote, no)
}

// turnedAway writes down who was not let in. Anybody can knock, and as often as he likes:
// beyond one a second, and 60 at once, they are only counted. It returns the id by which
// it is written down, empty if it is not.
func (r *relay) turnedAway(remote net.Addr, err error, who ...any) (request string) {
	if !r.knocks.Allow() {
		r.unsaid.Add(1)
		return ""
	}
	request = newRequest()
	args := append([]any{"remote", remote.String(), "why", reason(err)}, who...)
	if n := r.unsaid.Swap(0); n > 0 {
		args = append(args, "unsaid", n)
	}
	r.o.Audit.Warn("turned away", append(args, "request", request)...)
	return request
}

// expireGrace is when a tunnel whose token has ended is cut at the latest; before that
// the relay removes what came in by it.
const expireGrace = 15 * time.Second

func (r *relay) admit(c tunnel.Credentials) (*token.Grant, error) {
	if c.Token == "" && r.o.WithoutToken && c.Peer != nil {
		g, err := grantOf(c.Peer)
		if err != nil {
			return nil, err
		}
		return g, r.unrevoked(g.ID)
	}
	if c.Token == "" {
		return nil, refuse(http.StatusUnauthorized, "a token is needed: LANE_RELAY_TOKEN holds one, or the file that relay_token_file names")
	}
	g, err := r.o.Verifier.Verify(c.Token)
	if err != nil {
		return nil, refuse(http.StatusUnauthorized, "%v", err)
	}
	if c.Peer != nil && c.Peer.Subject.CommonName != g.User {
		return nil, refuse(http.StatusForbidden, "the token is of %s, and the certificate of %s", g.User, c.Peer.Subject.CommonName)
	}
	return g, r.unrevoked(g.ID)
}

// unrevoked says why what has that ID may not come in, or nil.
func (r *relay) unrevoked(id string) error {
	switch err := r.isRevoked(id); {
	case err == nil:
		return refuse(http.StatusUnauthorized, "the %s was revoked", shownWord(id))
	case !errors.Is(err, errNotRevoked):
		return err
	}
	return nil
}

var (
	errNotRevoked = errors.New("the token is not revoked")
	errUnsettled  = errors.New("the registry has not told this relay yet which tokens are revoked")
)

// isRevoked is nil for a token that is worth nothing; else it says why it is not
// known to be.
func (r *relay) isRevoked(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.settled {
		if r.deafBy != nil {
			return fmt.Errorf("%w: %w", errUnsettled, r.deafBy)
		}
		return errUnsettled
	}
	if _, ok := r.revoked[id]; ok {
		return nil
	}
	return errNotRevoked
}

// allow decides whether a holder may have a claim at all.
func (r *relay) allow(h tunnel.Holder, c tunnel.Claim) error {
	g, ok := h.Private.(*token.Grant)
	if !ok {
		return refuse(http.StatusForbidden, "who asks is not known")
	}
	if err := g.Allow(h.Subject, c.Lane, c.Service); err != nil {
		return refusal(g, err)
	}
	if _, err := lane.ParseName(c.Lane); err != nil {
		return refuse(http.StatusUnprocessableEntity, "%v", err)
	}
	if infrastructure(c.Service) {
		return refuse(http.StatusUnprocessableEntity, "%s is no application's service, and nobody claims it", c.Service)
	}
	if slices.Contains(r.o.Deny, c.Service) { // not 403: another token would not help
		return refuse(http.StatusLocked, "nobody may claim %s at this relay, whatever a token says: its --deny names it", c.Service)
	}
	if !g.Expires.After(r.o.Now()) {
		return refuse(http.StatusUnauthorized, "the %s has expired on %s", shownWord(g.ID), g.Expires.UTC().Format(time.RFC3339))
	}
	if r.isRevoked(g.ID) == nil {
		return refuse(http.StatusUnauthorized, "the %s was revoked", shownWord(g.ID))
	}
	return nil
}

// infrastructure are services that are no application's: nobody claims them, and
// nobody is led to them.
func infrastructure(service string) bool {
	return slices.Contains([]string{"consul", consul.GatewayService, consul.SidecarService, consul.RelayService}, service)
}

// Up registers a claim, or has it back.
func (a authority) Up(ctx context.Context, h tunnel.Holder, c tunnel.Claim) (map[string]string, error) {
	r := a.r
	note := r.o.Audit.With("user", h.Subject, "token", h.TokenID, "lane", c.Lane, "service", c.Service, "kind", string(c.Kind), "host", h.Host, "install", h.Install)
	if c.End {
		if err := r.yield(ctx, h, c); err != nil {
			request := newRequest()
			note.Error("gone", "why", string(tunnel.Released), "error", err.Error(), "request", request)
			return nil, numbered(err, request)
		}
		return nil, nil
	}
	e, err := r.up(ctx, h, c)
	if err != nil {
		r.o.Figures.refused.Add(1)
		request := newRequest()
		note.Warn("refused", "why", reason(err), "request", request)
		return nil, numbered(err, request)
	}
	answer := e.answer()
	note.Info("up", "registered", answer[facts.Registered], "address", answer[facts.Address])
	return answer, nil
}

// State takes what the laptop says of its process.
func (a authority) State(ctx context.Context, h tunnel.Holder, c tunnel.Claim, s tunnel.State) {
	if e := a.r.find(keyOf(h, c)); e != nil {
		if err := e.state(ctx, s); err != nil {
			a.r.o.Logger.Warn("mark as draining", "service", c.Service, "lane", c.Lane, "error", err)
		}
	}
}

// Lost has callers avoid the instance at once.
func (a authority) Lost(_ context.Context, h tunnel.Holder, c tunnel.Claim) {
	if e := a.r.find(keyOf(h, c)); e != nil {
		e.lost()
		a.r.o.Audit.Warn("lost", "user", h.Subject, "token", h.TokenID, "lane", c.Lane, "service", c.Service, "host", h.Host)
	}
}

// Gone removes a claim.
func (a authority) Gone(ctx context.Context, h tunnel.Holder, c tunnel.Claim, why tunnel.Reason) {
	r := a.r
	k := keyOf(h, c)
	r.mu.Lock()
	e := r.claims[k]
	delete(r.claims, k)
	r.mu.Unlock()
	if e == nil {
		return
	}
	err := r.down(ctx, e, why)
	word := string(why)
	if why == tunnel.Revoked && r.over(h) && r.isRevoked(h.TokenID) != nil {
		word = shownWord(h.TokenID) + " expired" // removed in the same order, for another reason
	} else if why == tunnel.Revoked && r.isRevoked(h.TokenID) != nil {
		word = "not allowed any more" // a new token, or one that has moved too much
	}
	note := r.o.Audit.With("user", h.Subject, "token", h.TokenID, "lane", c.Lane, "service", c.Service, "host", h.Host, "why", word)
	if err != nil {
		note.Error("gone", "error", err.Error())
		r.o.Logger.Warn("not everything could be removed from the registry", "service", c.Service, "lane", c.Lane, "error", err)
		return
	}
	note.Info("gone")
}

// lost hears that a claim is another's now, or was removed by hand.
func (r *relay) lost(lost *consul.ClaimLostError) {
	k := key{lane: string(lost.Lane), service: lost.Service}
	r.mu.Lock()
	if kept := r.kept[k]; kept != nil {
		kept.stop()
		delete(r.kept, k)
	}
	e := r.seats[k]
	r.mu.Unlock()
	if e == nil {
		return
	}
	r.work.Go(func() {
		r.tunnel.Drop(e.key.lane, e.key.service, e.key.beside, refuse(http.StatusConflict, "%v", lost))
	})
}

// Out dials an instance that the registry holds now.
func (a authority) Out(ctx context.Context, h tunnel.Holder, o tunnel.Out) (net.Conn, error) {
	conn, at, err := a.r.out(ctx, o)
	note := a.r.o.Audit.With("user", h.Subject, "token", h.TokenID, "service", o.Service, "lane", o.Lane, "instance", o.Facts[facts.Instance])
	if err != nil {
		note.Warn("not dialled", "why", reason(err))
		return nil, err
	}
	note.Debug("dialled", "address", at)
	return conn, nil
}

// reason is an error as the audit log has it.
func reason(err error) string {
	var no *tunnel.Refusal
	if errors.As(err, &no) {
		return no.Text
	}
	return err.Error()
}
