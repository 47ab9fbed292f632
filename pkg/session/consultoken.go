package session

import (
	"context"
	"fmt"
	"time"
)

// consulTokenLook is between two tries to learn when the registry's token ends, and
// between two looks whether that is soon.
const consulTokenLook = time.Minute

// watchConsulToken learns when the registry's token ends, once: that does not change. When
// it is soon, that is noted, once too.
func (s *session) watchConsulToken(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	known, told := false, false
	for {
		if !known {
			ends, err := s.client.TokenEnds(ctx)
			if known = err == nil; known && ends.IsZero() {
				return nil // there is nothing to wait for
			}
			s.mu.Lock()
			s.consulTokenEnds = ends
			s.mu.Unlock()
		}
		s.mu.Lock()
		text := s.consulTokenEnding()
		s.mu.Unlock()
		if text != "" && !told {
			told = true
			s.warn("%s", text)
			s.o.Log.Warn(text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// consulTokenEnding says that the registry's token ends soon; "" if it does not, or if
// nothing is known of that. What the token has registered, nobody removes without it: not
// this session, whose claims end with it, and not Consul, which does that by the token
// too. The caller holds mu.
func (s *session) consulTokenEnding() string {
	ends, now := s.consulTokenEnds, s.o.Now()
	if ends.IsZero() || ends.Sub(now) > tokenSoon {
		return ""
	}
	left := "has ended"
	if d := ends.Sub(now); d > 0 {
		left = "ends in " + spell(d)
	}
	what := "then nothing is known of the registry any more: begin another session with a new token"
	if s.link == nil && len(s.services) > 0 {
		what = "this session with it, leaving behind what it has registered: end it before"
	}
	return fmt.Sprintf("the Consul token %s (%s), and %s", left, ends.UTC().Format(time.RFC3339), what)
}
