package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// SessionOptions are the settings of a session; zero values are the defaults.
type SessionOptions struct {
	// TTL ends the session when nobody renews it: between one and two of it
	// after the last renewal. 10 minutes; Consul takes 10 s to 24 h.
	TTL time.Duration
	// Name is shown in Consul's own pages. A name that no other session bears has what
	// was cut off while it was opened found and removed; "": that is left to its TTL.
	Name string
	Late time.Duration // after a removal, what was cut off is waited for; 2 s
	// Reopened, if set, is called by Run when the registry had ended the session
	// and another one stands in its place; ID is then another one.
	Reopened func()
	// Lost, if set, is called by Run when one claim is no longer this session's: the
	// others stay, and Run goes on. Nil: Run returns it.
	Lost func(*ClaimLostError)
}

// Session holds claims: locks on lane/declared/<lane>/<service> that die with
// it. It is made without node checks: with Consul's default a failed agent
// would delete the claims, and the lane would fall back silently.
type Session struct {
	c *Client
	o SessionOptions
	// watching is what Run's watch asks: anew when the claims have changed, and
	// when the registry was away.
	watching *starts
	suspect  chan struct{} // holds one wish to look at everything

	mu     sync.Mutex
	id     string
	former string                // the one before, until it has surely ended; "" is none
	own    map[string]lane.Claim // by key
	closed bool
	astray map[string]time.Time // by key: when a claim was last sent of which nobody knows what became
}

// OpenSession opens a session with the registry. It is opened, and to be
// destroyed, when there is no error, even if ctx has ended meanwhile.
func (c *Client) OpenSession(ctx context.Context, o SessionOptions) (*Session, error) {
	if o.TTL == 0 {
		o.TTL = 10 * time.Minute
	}
	if o.Late == 0 {
		o.Late = lateFor
	}
	if o.TTL < 10*time.Second || o.TTL > 24*time.Hour {
		return nil, &ValidationError{Field: "claim TTL", Value: o.TTL.String(), Why: "Consul takes 10s to 24h"}
	}
	s := &Session{c: c, o: o, own: map[string]lane.Claim{}, astray: map[string]time.Time{}, watching: newStarts(), suspect: make(chan struct{}, 1)}
	id, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.id = id
	return s, nil
}

func (s *Session) open(ctx context.Context) (string, error) {
	var id string
	err := s.c.commit(ctx, "open a session", needSession, func(ctx context.Context) (err error) {
		id, _, err = s.c.api.Session().CreateNoChecks(&api.SessionEntry{
			Name: s.o.Name, TTL: s.o.TTL.String(), Behavior: api.SessionBehaviorDelete,
			// 0 would mean Consul's 15 s, in which nobody can take a claim.
			LockDelay: time.Millisecond,
		}, write(ctx))
		return err
	})
	if isUnsure(err) {
		s.endAstray(ctx)
	}
	return id, err
}

// endAstray ends a session that was opened though nobody has heard of it, or is only
// now. One that it cannot end holds nothing, and its TTL ends it.
func (s *Session) endAstray(ctx context.Context) {
	if s.o.Name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Late)
	defer cancel()
	spare := s.ID() // opened again in its place, it is the one that there is
	for {
		n, err := s.c.removeSessions(ctx, s.o.Name, spare)
		if n > 0 || err != nil && !isBrief(err) {
			return
		}
		select {
		case <-time.After(lateLook):
		case <-ctx.Done():
			return
		}
	}
}

// ID returns the session's ID in the registry. It changes when Run has to open
// the session again.
func (s *Session) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Check has Run renew the session and look at its claims at once. It never blocks.
func (s *Session) Check() {
	select {
	case s.suspect <- struct{}{}:
	default: // one is waiting
	}
}

// Claim takes the claim's lane and service for this session; the claim's own
// Session field is set. It returns a *ClaimHeldError when another session holds
// it, ErrSessionLost when this one is no more.
func (s *Session) Claim(ctx context.Context, cl lane.Claim) error {
	if err := checkClaim(cl); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cl.Session = s.ID()
	for {
		got, err := s.acquire(ctx, cl)
		if err != nil {
			return err
		}
		if got {
			s.keep(cl)
			return nil
		}
		held, found, err := s.c.held(ctx, cl.Lane, cl.Service)
		if err != nil {
			return err
		}
		if found && held.Session != "" {
			return &ClaimHeldError{Held: s.c.WithActivity(ctx, []lane.Claim{held})[0]}
		}
		// Nobody holds it: it was given up just now, or a lock delay runs.
		select {
		case <-ctx.Done():
			return fmt.Errorf("claim %s: nobody holds it, but the registry does not give it out yet: %w", cl.Service, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Session) acquire(ctx context.Context, cl lane.Claim) (bool, error) {
	var got bool
	err := s.c.commit(ctx, "claim "+cl.Service, needClaims, func(ctx context.Context) (err error) {
		got, _, err = s.c.api.KV().Acquire(&api.KVPair{Key: claimKey(cl.Lane, cl.Service), Value: encodeClaim(cl),
			Session: cl.Session}, write(ctx))
		return err
	})
	if isUnsure(err) {
		s.mu.Lock()
		s.astray[claimKey(cl.Lane, cl.Service)] = time.Now()
		s.mu.Unlock()
	}
	if statusOf(err) == 500 { // also the answer for a session that is no more
		if alive, aerr := s.renew(ctx, cl.Session); aerr == nil && !alive {
			return false, fmt.Errorf("claim %s: %w", cl.Service, ErrSessionLost)
		}
	}
	return got, err
}

// TakeOver takes a claim from the session that holds it, in one transaction: it
// succeeds only while old still holds it, and the other session keeps whatever
// else it holds. It returns a *ClaimHeldError when another holder was faster.
func (s *Session) TakeOver(ctx context.Context, old, cl lane.Claim) error {
	if err := checkClaim(cl); err != nil {
		return err
	}
	if old.Session == "" {
		return s.Claim(ctx, cl)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cl.Session = s.ID()
	key := claimKey(cl.Lane, cl.Service)
	ok, err := s.c.txn(ctx, "take over "+cl.Service,
		&api.KVTxnOp{Verb: api.KVCheckSession, Key: key, Session: old.Session},
		&api.KVTxnOp{Verb: api.KVUnlock, Key: key, Session: old.Session},
		&api.KVTxnOp{Verb: api.KVLock, Key: key, Session: cl.Session, Value: encodeClaim(cl)})
	if err != nil {
		return err
	}
	if !ok {
		return s.Claim(ctx, cl) // it changed meanwhile: given up, or another's
	}
	s.keep(cl)
	return nil
}

// Release gives a claim up: it deletes the key, if it is still ours (a KV
// release would leave it). A claim that is not ours is left alone.
func (s *Session) Release(ctx context.Context, l lane.Name, service string) error {
	key := claimKey(l, service)
	s.mu.Lock()
	id := s.id
	delete(s.own, key)
	late := time.Since(s.astray[key]) < astrayFor
	delete(s.astray, key)
	s.mu.Unlock()
	s.c.inactive(ctx, l, service, id)
	gone, err := s.drop(ctx, key, service, id)
	if !late {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Late)
	defer cancel()
	for !gone && (err == nil || isBrief(err)) {
		select {
		case <-time.After(lateLook):
		case <-ctx.Done():
			return err
		}
		gone, err = s.drop(ctx, key, service, id)
	}
	return err
}

// drop deletes a key that a session holds; gone is false if it does not.
func (s *Session) drop(ctx context.Context, key, service, id string) (gone bool, err error) {
	return s.c.txn(ctx, "release "+service,
		&api.KVTxnOp{Verb: api.KVCheckSession, Key: key, Session: id},
		&api.KVTxnOp{Verb: api.KVDelete, Key: key})
}

// Destroy ends the session; the registry deletes the claims that it still holds.
func (s *Session) Destroy(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	id := s.id
	clear(s.own)
	s.mu.Unlock()
	s.watching.again()
	return errors.Join(s.destroy(ctx, id), s.endFormer(ctx))
}

func (s *Session) destroy(ctx context.Context, id string) error {
	return s.c.undo(ctx, "end the session", needSession, func(ctx context.Context) error {
		_, err := s.c.api.Session().Destroy(id, write(ctx))
		return err
	})
}

func (s *Session) keep(cl lane.Claim) {
	s.mu.Lock()
	s.own[claimKey(cl.Lane, cl.Service)] = cl
	s.mu.Unlock()
	s.watching.again()
}

// renew reports whether the registry still knows the session.
func (s *Session) renew(ctx context.Context, id string) (alive bool, err error) {
	err = s.c.do(ctx, "renew the session", needSession, func(ctx context.Context) error {
		var out []*api.SessionEntry // typed errors, unlike the client's own Renew
		_, err := s.c.api.Raw().Write("/v1/session/renew/"+id, nil, &out, write(ctx))
		alive = err == nil && len(out) > 0
		return err
	})
	if statusOf(err) == 404 {
		return s.known(ctx, id)
	}
	return alive, err
}

// known reports whether the registry has the session. A renewal does not tell by
// itself: it looks at what the server has read of its log so far.
func (s *Session) known(ctx context.Context, id string) (bool, error) {
	var entry *api.SessionEntry
	err := s.c.do(ctx, "look for the session", `session:read on every node (session_prefix "")`, func(ctx context.Context) (err error) {
		entry, _, err = s.c.api.Session().Info(id, query(ctx))
		return err
	})
	return entry != nil, err
}

// txn runs key-value operations as one; ok is false when one of them did not
// hold and nothing was done.
func (c *Client) txn(ctx context.Context, what string, ops ...*api.KVTxnOp) (ok bool, err error) {
	return c.txnNeeding(ctx, what, needClaims, ops...)
}

// txnNeeding is txn for keys that need another right.
func (c *Client) txnNeeding(ctx context.Context, what, need string, ops ...*api.KVTxnOp) (ok bool, err error) {
	body := make(api.TxnOps, len(ops))
	for i, op := range ops {
		body[i] = &api.TxnOp{KV: op}
	}
	err = c.commit(ctx, what, need, func(ctx context.Context) error {
		var out json.RawMessage
		_, err := c.api.Raw().Write("/v1/txn", body, &out, write(ctx)) // typed errors, unlike the client's own Txn
		return err
	})
	if statusOf(err) == http.StatusConflict {
		return false, refusedByACL(what, need, err)
	}
	return err == nil, err
}

// refusedByACL tells a transaction that the registry's access control refused
// from one in which something did not hold: the registry answers both with 409,
// and says the difference in words only.
func refusedByACL(what, need string, err error) error {
	var answer *AnswerError
	var body struct{ Errors []struct{ What string } }
	if !errors.As(err, &answer) || json.Unmarshal([]byte(answer.Body), &body) != nil {
		return nil
	}
	for _, e := range body.Errors {
		if strings.HasPrefix(e.What, "Permission denied") {
			return &DeniedError{What: what, Need: need, Err: errors.New(e.What)}
		}
	}
	return nil
}

func checkClaim(cl lane.Claim) error {
	if _, err := lane.ParseName(string(cl.Lane)); err != nil {
		return &ValidationError{Field: "lane", Value: string(cl.Lane), Why: err.Error()}
	}
	return checkService("service", cl.Service)
}

var errClosed = errors.New("the session was ended by its owner")
