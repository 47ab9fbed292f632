package consul

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// ErrSessionLost is what Session.Run returns when the registry no longer knows
// the session and does not let us open another one.
var ErrSessionLost = errors.New("the registry has ended the session")

// errStopped answers a Need after the watcher has ended.
var errStopped = errors.New("the registry watch has ended")

// errFlood answers a Need when too many services wait for a first answer.
var errFlood = errors.New("too many services are asked for at once: the registry has not answered for the others yet")

// errEvicted tells a waiting Need to ask again: its watch gave way to others.
var errEvicted = errors.New("the watch gave way to others")

// UnreachableError says that no registry answered, or that what answered is not
// one. Nothing can be said about the state of a write that ended so.
type UnreachableError struct {
	Address string
	What    string // what was being done
	Err     error
}

func (e *UnreachableError) Error() string {
	var foreign *foreignError
	if errors.As(e.Err, &foreign) {
		return foreign.words(e.What, e.Address)
	}
	return fmt.Sprintf("%s: the registry at %s cannot be reached: %v (set CONSUL_HTTP_ADDR to your agent's address)",
		e.What, e.Address, e.Err)
}

// Fact is the error without what was being done, and without the advice for somebody
// who has just said where the registry is: for one that has answered before.
func (e *UnreachableError) Fact() string {
	var foreign *foreignError
	if errors.As(e.Err, &foreign) {
		return foreign.fact(e.Address)
	}
	return "the registry at " + e.Address + " cannot be reached: " + e.Err.Error()
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// lateError is a deadline that has passed, without the word of the library for it.
type lateError struct{ err error }

func (*lateError) Error() string { return "no answer in time" }

func (e *lateError) Unwrap() error { return e.err }

// foreignError says that what answers is no Consul, by what shows that.
type foreignError struct {
	by  string
	tls bool // it may be one, behind TLS
}

func (e *foreignError) Error() string { return "it is no Consul: " + e.by }

func (e *foreignError) words(what, addr string) string {
	if e.tls {
		return fmt.Sprintf("%s: %s: set CONSUL_HTTP_ADDR to https://%s if it is your agent", what, e.fact(addr), strings.TrimPrefix(addr, "http://"))
	}
	return fmt.Sprintf("%s: %s: set CONSUL_HTTP_ADDR to your agent's address", what, e.fact(addr))
}

func (e *foreignError) fact(addr string) string {
	if e.tls {
		return "what answers at " + addr + " wants TLS"
	}
	return "what answers at " + addr + " is no Consul (" + e.by + ")"
}

// foreign tells an answer that no Consul gives; nil if one may have given it. A page is
// not Consul's, which answers with JSON and plain words.
func foreign(code int, body string) *foreignError {
	body = strings.TrimSpace(body)
	switch {
	case strings.Contains(body, "HTTP request to an HTTPS server"), strings.Contains(body, "plain HTTP request was sent to HTTPS port"):
		return &foreignError{tls: true}
	case strings.HasPrefix(body, "<"):
		return &foreignError{by: fmt.Sprintf("it answered %d with a page", code)}
	}
	return nil
}

// NoLeaderError says that the agent answers but knows no leader: it takes
// registrations and shows old data, so neither proves anything.
type NoLeaderError struct{ Address string }

func (e *NoLeaderError) Error() string {
	return fmt.Sprintf("the registry at %s has no leader: it cannot be trusted until its servers have elected one", e.Address)
}

// DeniedError says that the registry's access control refused the token.
type DeniedError struct {
	What string // what was being done
	Need string // the rule that would allow it
	Err  error  // the registry's own words; nil when it silently cut its answer
}

func (e *DeniedError) Error() string {
	msg := fmt.Sprintf("%s: the registry denied it; the token needs %s", e.What, e.Need)
	if e.Err != nil {
		msg += fmt.Sprintf(" (%v)", e.Err)
	}
	return msg
}

func (e *DeniedError) Unwrap() error { return e.Err }

// ValidationError names a value that cannot be used, why, and what to do.
type ValidationError struct {
	Field, Value, Why, Fix string
	Secret                 bool // Value is one: it is not shown
}

func (e *ValidationError) Error() string {
	msg := fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Why)
	if e.Secret {
		msg = e.Field + ": " + e.Why
	}
	if e.Fix != "" {
		msg += "; " + e.Fix
	}
	return msg
}

// AnswerError is any other answer of the registry that is no success.
type AnswerError struct {
	What   string // what was being done
	Status int    // HTTP status
	Body   string
	Hint   string
}

func (e *AnswerError) Error() string {
	msg := fmt.Sprintf("%s: the registry answered %d: %s", e.What, e.Status, e.Body)
	if e.Hint != "" {
		msg += " (" + e.Hint + ")"
	}
	return msg
}

// ClaimHeldError says who holds a claim that we asked for.
type ClaimHeldError struct{ Held lane.Claim }

func (e *ClaimHeldError) Error() string {
	h := e.Held
	msg := fmt.Sprintf("%s in lane %s is held by %s", h.Service, h.Lane, lane.Holder(orUnknown(h.Owner), h.Host))
	if h.Since != "" {
		msg += " since " + h.Since
		if h.Active != "" {
			msg += ", last active " + h.Active
		}
		msg += " (by their clock)"
	}
	return msg
}

// ClaimLostError says that a claim of ours is held by another, or, with an
// empty By.Session, that its key was removed by somebody.
type ClaimLostError struct {
	Lane    lane.Name
	Service string
	By      lane.Claim
	Text    string // in place of By, where a relay says it
}

func (e *ClaimLostError) Error() string {
	if e.Text != "" {
		return "claim lost: " + e.Text
	}
	if e.By.Session == "" {
		return fmt.Sprintf("claim lost: %s in lane %s was removed from the registry", e.Service, e.Lane)
	}
	return fmt.Sprintf("claim lost: %s in lane %s was taken over by %s",
		e.Service, e.Lane, lane.Holder(orUnknown(e.By.Owner), e.By.Host))
}

func orUnknown(s string) string {
	if s == "" {
		return "somebody unknown"
	}
	return s
}

// NotShownError says that the agent took a registration which the catalog does
// not show: its answer alone is no proof.
type NotShownError struct {
	ID, Name, Address string
	Seen              string // what the catalog showed instead
	Err               error
}

func (e *NotShownError) Error() string {
	return fmt.Sprintf("the agent at %s took %s, but the catalog does not show it under %s as told (%s): %v",
		e.Address, e.ID, e.Name, e.Seen, e.Err)
}

func (e *NotShownError) Unwrap() error { return e.Err }

// LeftoverError says that a registration could not be removed, or is still
// shown after it was, and when the registry will remove it by itself.
type LeftoverError struct {
	ID, Name, Address string
	Within            time.Duration // the registry's own removal, at most; 0 is unknown
	Err               error
}

func (e *LeftoverError) Error() string {
	msg := fmt.Sprintf("%s (service %s) may still be registered at %s", e.ID, e.Name, e.Address)
	switch {
	case isDenied(e.Err):
		msg += "; Consul cannot remove it by itself when the token that registered it is gone"
	case e.Within > 0:
		msg += fmt.Sprintf("; Consul removes it by itself within %s", e.Within)
	}
	return fmt.Sprintf("%s: %v", msg, e.Err)
}

func (e *LeftoverError) Unwrap() error { return e.Err }

// do runs one call with the deadline that every call has, and explains its error.
func (c *Client) do(ctx context.Context, what, need string, call func(context.Context) error) error {
	dctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.explain(ctx, what, need, call(dctx))
}

// writeGrace is how long a write in flight goes on when its caller gives up.
const writeGrace = 2 * time.Second

// commit is do for what leaves something behind in the registry. A write that
// was cut off may have been done, or be done later than the removal that
// follows; so it is not cut off at once. Where even so nobody knows what became of
// it, the error is an *UnsureError: whoever removes it has to look for it once more.
func (c *Client) commit(ctx context.Context, what, need string, call func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return c.explain(ctx, what, need, err)
	}
	wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		t := time.NewTimer(writeGrace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-wctx.Done():
		}
	})()
	raw := call(wctx)
	err := unsure(c.explain(ctx, what, need, raw), raw)
	if isUnsure(err) {
		now := time.Now()
		c.astray.Store(&now)
	}
	return err
}

// UnsureError is an error of a write that may have been done, or be done later: it was
// sent, and no answer has said what became of it.
type UnsureError struct{ error }

func (e *UnsureError) Unwrap() error { return e.error }

// isUnsure reports whether a write of this error may have been done, or be done later.
func isUnsure(err error) bool {
	var u *UnsureError
	return errors.As(err, &u)
}

// unsure marks err, which is explained, as that of a write of which nobody knows. raw
// is the call's own error.
func unsure(err, raw error) error {
	var status api.StatusError
	var network *net.OpError
	switch {
	case raw == nil:
		return err
	case errors.As(raw, &status) && status.Code < http.StatusInternalServerError:
		return err // it was refused
	case errors.As(raw, &network) && network.Op == "dial":
		return err // it was never sent
	}
	return &UnsureError{err}
}

// lateFor is how long after its removal a write that was cut off is waited for: it may
// come after what removes it.
const (
	lateFor  = 2 * time.Second
	lateLook = 100 * time.Millisecond // between two looks for it
)

// astrayFor is how long a write that was cut off counts as under way.
const astrayFor = 30 * time.Second

// Astray reports whether a write was cut off lately of which nobody knows what became:
// what was removed since may come back.
func (c *Client) Astray() bool {
	at := c.astray.Load()
	return at != nil && time.Since(*at) < astrayFor
}

// undo is do for a removal. It may be asked for twice, so that a connection that
// breaks, or whoever stands in between, does not leave things behind.
func (c *Client) undo(ctx context.Context, what, need string, call func(context.Context) error) error {
	const tries = 4
	for n, wait := 1, 50*time.Millisecond; ; n, wait = n+1, 4*wait {
		err := c.do(ctx, what, need, call)
		if n == tries || !isBrief(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// isBrief reports whether a call failed in a way that the next one may not: what has
// taken its whole time, or nobody listens for, has no second try.
func isBrief(err error) bool {
	var network *net.OpError
	switch status := statusOf(err); {
	case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return false
	case status != 0:
		return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
	case errors.As(err, &network) && network.Op == "dial":
		return false
	}
	return isUnreachable(err)
}

// explain turns an error of the client library into one of ours. ctx is the
// caller's: when the caller gave up, that is the error.
func (c *Client) explain(ctx context.Context, what, need string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	var status api.StatusError
	if errors.As(err, &status) {
		if f := foreign(status.Code, status.Body); f != nil {
			return &UnreachableError{Address: c.Address(), What: what, Err: f}
		}
		switch {
		case status.Code == http.StatusForbidden:
			return &DeniedError{What: what, Need: need, Err: errors.New(status.Body)}
		case status.Code == http.StatusBadRequest && c.namespace != "":
			return &AnswerError{What: what, Status: status.Code, Body: status.Body,
				Hint: fmt.Sprintf("namespace %q is set, and Consul's community edition has none: unset CONSUL_NAMESPACE or the namespace setting", c.namespace)}
		case status.Code == http.StatusTooManyRequests:
			return &AnswerError{What: what, Status: status.Code, Body: status.Body,
				Hint: "the agent allows 200 connections for each client address by default (http_max_conns_per_client)"}
		}
		return &AnswerError{What: what, Status: status.Code, Body: status.Body}
	}
	var wire *url.Error
	var network net.Error
	switch {
	case errors.As(err, &wire):
		err = wire.Err // the URL says no more than the address
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF):
	default:
		err = &foreignError{by: "its answer cannot be read: " + err.Error()}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = &lateError{err}
	}
	return &UnreachableError{Address: c.Address(), What: what, Err: err}
}

// statusOf returns the HTTP status of an explained or unexplained answer, 0 if
// the error is no answer.
func statusOf(err error) int {
	var status api.StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	var answer *AnswerError
	if errors.As(err, &answer) {
		return answer.Status
	}
	var denied *DeniedError
	if errors.As(err, &denied) {
		return http.StatusForbidden
	}
	return 0
}
