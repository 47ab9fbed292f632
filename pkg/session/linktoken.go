package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"lane/pkg/token"
	"lane/tunnel"
)

// token gives the token for a link.
func (l *link) token(ctx context.Context) (string, error) {
	text, err := l.o.Token(ctx)
	if err == nil {
		l.mu.Lock()
		l.read, l.asked = text, true
		if l.user == "" {
			l.user = userOf(text)
		}
		l.mu.Unlock()
	}
	return text, err
}

// taken notes that the relay has taken the token that was read last. The caller holds mu.
func (l *link) taken() {
	l.ends = l.o.ends(l.read)
	l.user = cmp.Or(userOf(l.read), l.user)
}

func userOf(text string) string {
	g, _ := token.Look(text)
	return g.User
}

// owner is who holds the session's claims: the relay has it from the token, whatever this
// machine's user is called.
func (l *link) owner(here string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.user, l.o.certified().CommonName, here)
}

// renew shows the relay a token that has come into the place of the other one: the
// tunnel goes on, and nothing is registered anew.
func (l *link) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, linkLimit)
	defer cancel()
	renewed, err := l.agent.Renew(ctx)
	var no *tunnel.Refusal
	l.mu.Lock()
	switch {
	case renewed:
		l.taken()
	case errors.As(err, &no):
		l.bad = l.read
	}
	ends := l.ends
	l.mu.Unlock()
	switch {
	case renewed:
		l.s.inform()
		l.s.event("the relay has taken a new token, which is good until %s", ends.UTC().Format(time.RFC3339))
	case no != nil:
		l.s.warn("the relay does not take the new token: %s", no.Text)
		l.s.o.Log.Warn("the relay does not take the new token, and the old one is used until its end", "error", no.Text)
	}
}

// ending says that the token ends soon, or that it cannot be read any more; "" if it does
// not, or if another one lies ready. It reads the token. about is the same for as long as
// it says the same thing.
func (l *link) ending(ctx context.Context) (text, about string) {
	l.mu.Lock()
	ends, bad := l.ends, l.bad
	l.mu.Unlock()
	return ending(ctx, l.o.Token, ends, bad, l.s.o.Now(), "this session")
}

// ending is what link's says, of a token that ends then; what goes on by it is named.
func ending(ctx context.Context, read func(context.Context) (string, error), ends time.Time, bad string, now time.Time, what string) (text, about string) {
	next, err := read(ctx)
	if err != nil && !ends.IsZero() && ctx.Err() == nil {
		text = fmt.Sprintf("%v: the tunnel that stands goes on until %s, and no other one can be made", err, ends.UTC().Format(time.RFC3339))
		return text, text
	}
	if ends.IsZero() || ends.Sub(now) > tokenSoon {
		return "", ""
	}
	if err == nil && next != bad {
		if e, ok := token.Ends(next); ok && e.Sub(now) > tokenSoon {
			return "", ""
		}
	}
	left := "has ended"
	if d := ends.Sub(now); d > 0 {
		left = "ends in " + spell(d)
	}
	if err == nil && next == "" { // the relay takes the certificate alone, which is read at the start
		return fmt.Sprintf("the certificate for the relay %s (%s), and %s with it", left, ends.UTC().Format(time.RFC3339), what), ends.String()
	}
	return fmt.Sprintf("the token for the relay %s (%s), and %s with it, unless relay_token_file holds a new one by then",
		left, ends.UTC().Format(time.RFC3339), what), ends.String()
}

// watchToken takes each new token, and notes once for each that it ends soon.
func (l *link) watchToken(ctx context.Context) error {
	tick := time.NewTicker(tokenLook)
	defer tick.Stop()
	told := ""
	for {
		l.renew(ctx)
		text, about := l.ending(ctx)
		if text == "" {
			told = ""
		}
		if text != "" && about != told {
			told = about
			l.s.warn("%s", text)
			l.s.o.Log.Warn(text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
