package session

import (
	"context"
	"errors"
	"fmt"

	"lane/pkg/relay/facts"
)

// ForeignError says that the relay registers in another registry than that which the
// session reads: nothing of what it has registered is there.
type ForeignError struct {
	Relay, Registry string
	Theirs, Ours    string // the datacenters, as far as they are known
}

func (e *ForeignError) Error() string {
	text := fmt.Sprintf("the relay %s registers in another Consul than the one at %s that is read here", e.Relay, e.Registry)
	if e.Theirs != "" && e.Ours != "" && e.Theirs != e.Ours {
		text += fmt.Sprintf(" (in datacenter %s, and this one is %s)", e.Theirs, e.Ours)
	}
	return text
}

// wayOut is what comes of it, and what to do.
func (e *ForeignError) wayOut() string {
	return e.Error() + ": the environment's callers do reach the lane, and your own calls are decided by the wrong registry. " +
		ForeignHint
}

// ForeignHint is what to do about a relay that registers elsewhere.
const ForeignHint = "Let CONSUL_HTTP_ADDR (consul.address) lead to the relay's Consul, and consul.datacenter be its datacenter; whoever runs the relay knows both"

// foreign asks the registry itself whether the relay's registration of a service is not
// in it at all. Both ways to see it count, the instance and the claim; where the token
// may not look at one of them, nobody knows, and the answer is nil.
func (s *session) foreign(ctx context.Context, v *service) *ForeignError {
	f, ok := v.place().hold.(*far)
	if !ok || v.wasShown() {
		return nil
	}
	f.mu.Lock()
	got := f.facts
	f.mu.Unlock()
	if got == nil {
		return nil // it has not been registered yet
	}
	var shown bool
	err := s.within(ctx, func(ctx context.Context) (err error) {
		if shown, err = s.client.ShowsInstance(ctx, got[facts.Registered], got[facts.ID]); err == nil && !shown {
			shown, err = s.client.ShowsClaim(ctx, s.o.Lane, v.o.Name, s.o.Install)
		}
		return err
	})
	if err != nil || shown {
		return nil
	}
	e := &ForeignError{Relay: s.link.o.URL, Registry: s.client.Address(), Theirs: got[facts.Datacenter]}
	if e.Theirs != "" {
		e.Ours = s.client.OwnDatacenter(ctx)
	}
	return e
}

// wasShown reports whether the registry has ever shown its registration: then it is the
// relay's own.
func (v *service) wasShown() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen
}

// show notes that the registry shows its registration.
func (v *service) show() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = true
}

// asForeign is the error of a proof, if that is the reason.
func asForeign(err error) *ForeignError {
	var e *ForeignError
	errors.As(err, &e)
	return e
}

// abroad says that the relay registers in another registry, or nil. The caller holds mu.
func (s *session) abroad() *ForeignError {
	for _, v := range s.services {
		v.mu.Lock()
		e := v.foreign
		v.mu.Unlock()
		if e != nil {
			return e
		}
	}
	return nil
}
