package whitelist

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An answer to a question from before the failure does not end the breaker's
// second, one from after it does.
func TestOnlyAnAnswerFromAfterTheFailureCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker
		asked := time.Now()
		time.Sleep(10 * time.Millisecond)
		b.failed()
		b.answered(asked)
		if b.allow() {
			t.Error("allowed by an answer that is older than the failure")
		}
		time.Sleep(retried)
		if !b.allow() || b.allow() {
			t.Error("want one to ask after a second, and one only")
		}
		b.answered(time.Now())
		for range 2 {
			if !b.allow() {
				t.Error("nobody may ask after an answer")
			}
		}
	})
}

func TestWhoMayAskAndDoesNotLeavesTheTurnToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker
		b.failed()
		time.Sleep(retried)
		if !b.allow() {
			t.Fatal("nobody may ask")
		}
		b.unasked()
		if !b.allow() {
			t.Error("the turn is lost")
		}
	})
}

func TestATroubleIsSaidOnceAndItsEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &source{users: map[string]bool{"secret-id": true}, err: errors.New("refused")}
		w := over(t, s, slog.New(slog.NewTextHandler(&out, nil)))
		for i := range 30 {
			w.Member(t.Context(), "shop", "secret-id")
			w.Member(t.Context(), "pay", fmt.Sprint("secret-id", i))
			time.Sleep(retried)
		}
		lines := func() []string { return strings.Split(strings.TrimSpace(out.String()), "\n") }
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "level=WARN") || !strings.Contains(got[0], "refused") {
			t.Errorf("30 s of failures were said as %q", got)
		}
		// It comes and goes: still the same trouble.
		s.set(func(s *source) { s.err = nil })
		member(t, w, "secret-id", true)
		s.set(func(s *source) { s.err = errors.New("refused") })
		w.Member(t.Context(), "shop", "another")
		if got := lines(); len(got) != 1 {
			t.Errorf("said again: %q", got)
		}
		s.set(func(s *source) { s.err = nil })
		time.Sleep(remembered)
		member(t, w, "secret-id", true)
		if got := lines(); len(got) != 2 || !strings.Contains(got[1], "level=INFO") || !strings.Contains(got[1], "errors=31") {
			t.Errorf("the end was said as %q", got)
		}
		time.Sleep(remembered)
		s.set(func(s *source) { s.err = errors.New("refused again") })
		w.Member(t.Context(), "shop", "secret-id")
		if got := lines(); len(got) != 3 || !strings.Contains(got[2], "refused again") {
			t.Errorf("the next trouble was said as %q", got)
		}
		if strings.Contains(out.String(), "secret-id") {
			t.Errorf("a user's id is in the log:\n%s", &out)
		}
	})
}

// One list that cannot be read leaves the others alone.
func TestTheTroubleOfOneRouteIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &source{users: map[string]bool{"ann": true}, err: &LookupError{Kind: Broken, Route: true, Err: errors.New("WRONGTYPE")}}
		w := over(t, s, slog.New(slog.NewTextHandler(&out, nil)))
		if w.Member(t.Context(), "broken", "ann") || w.Member(t.Context(), "broken", "bob") {
			t.Error("a member of a list that cannot be read")
		}
		s.set(func(s *source) { s.err = nil })
		member(t, w, "ann", true) // at once: no breaker
		if n := s.questions(); n != 3 {
			t.Errorf("%d questions, want 3", n)
		}
		time.Sleep(retried)
		if !w.Member(t.Context(), "broken", "ann") {
			t.Error("not a member after a second")
		}
		if got := strings.Count(out.String(), "route=broken"); got != 1 || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("said:\n%s", &out)
		}
	})
}
