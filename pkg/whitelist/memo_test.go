package whitelist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// source is a list of users that can be dead (err), silent (hang), or take its
// time (slow).
type source struct {
	mu    sync.Mutex
	users map[string]bool
	err   error
	slow  time.Duration
	hang  bool
	asked []string
	ended []error // how the contexts of silent look-ups ended
}

func (s *source) set(change func(s *source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *source) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *source) ends() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ended)
}

func (s *source) load(ctx context.Context, route, id string) (bool, error) {
	s.mu.Lock()
	s.asked = append(s.asked, route+"/"+id)
	member, err, slow, hang := s.users[id], s.err, s.slow, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		s.set(func(s *source) { s.ended = append(s.ended, ctx.Err()) })
		return false, ctx.Err()
	}
	if slow > 0 {
		time.Sleep(slow)
	}
	return member, err
}

// over makes a whitelist of s, which ends with the test.
func over(t *testing.T, s *source, log *slog.Logger) *Whitelist {
	t.Helper()
	count := &counts{}
	answers := newMemo(capacity, count, logger(log), s.load)
	w := &Whitelist{
		count: count,
		ask: func(ctx context.Context, route, id string) (bool, bool) {
			a := answers.get(ctx, route+"/"+id, route, id)
			return a.value, a.known
		},
		close: func() error {
			answers.close()
			answers.wait()
			return nil
		},
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func member(t *testing.T, w *Whitelist, id string, want bool) {
	t.Helper()
	if got := w.Member(t.Context(), "shop", id); got != want {
		t.Errorf("%s is a member: %v, want %v", id, got, want)
	}
}

// failures wants so many failures of a kind, and of no other.
func failures(t *testing.T, w *Whitelist, kind Kind, n uint64) {
	t.Helper()
	if got, want := w.Failures(), map[string]uint64{kind.String(): n}; !maps.Equal(got, want) {
		t.Errorf("failures %v, want %v", got, want)
	}
}

func TestAnAnswerHoldsForTenSeconds(t *testing.T) {
	for _, in := range []bool{true, false} {
		t.Run(fmt.Sprint(in), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{users: map[string]bool{"ann": in}}
				w := over(t, s, nil)
				member(t, w, "ann", in)
				s.set(func(s *source) { s.users["ann"] = !in })
				// Its calls do not prolong it.
				for range 9 {
					time.Sleep(time.Second)
					member(t, w, "ann", in)
				}
				time.Sleep(time.Second - 1)
				member(t, w, "ann", in)
				if n := s.questions(); n != 1 {
					t.Errorf("%d questions within ten seconds, want 1", n)
				}
				time.Sleep(time.Nanosecond)
				member(t, w, "ann", !in)
			})
		})
	}
}

// The list may have changed while its answer was under way.
func TestAnAnswersAgeCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{users: map[string]bool{"ann": true}, slow: 40 * time.Millisecond}
		w := over(t, s, nil)
		begin := time.Now()
		member(t, w, "ann", true)
		s.set(func(s *source) { s.users = nil })
		time.Sleep(time.Until(begin.Add(remembered)))
		member(t, w, "ann", false)
	})
}

func TestAFailureHoldsForOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{users: map[string]bool{"ann": true}, err: errors.New("refused")}
		w := over(t, s, nil)
		member(t, w, "ann", false)
		s.set(func(s *source) { s.err = nil })
		time.Sleep(time.Second - 1)
		member(t, w, "ann", false)
		if n := s.questions(); n != 1 {
			t.Errorf("%d questions in the first second, want 1", n)
		}
		time.Sleep(time.Nanosecond)
		member(t, w, "ann", true)
		if got, want := w.Stats(), (Stats{Lookups: 2, Errors: 1, Unknown: 2}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		failures(t, w, Unclear, 1)
	})
}

func TestOneLookupForManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{users: map[string]bool{"ann": true}, slow: 20 * time.Millisecond}
		w := over(t, s, nil)
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				if !w.Member(t.Context(), "shop", "ann") {
					t.Error("not a member")
				}
			})
		}
		all.Wait()
		if n := s.questions(); n != 1 {
			t.Errorf("%d questions for 1,000 requests in 5 s, want 1", n)
		}
	})
}

func TestRoutesHaveTheirOwnAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{users: map[string]bool{"ann": true}}
		w := over(t, s, nil)
		w.Member(t.Context(), "shop", "ann")
		w.Member(t.Context(), "pay", "ann")
		if got := strings.Join(s.asked, " "); got != "shop/ann pay/ann" {
			t.Errorf("asked for %s", got)
		}
	})
}

func TestASilentSourceHoldsNobodyLongerThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{hang: true}
		w := over(t, s, nil)
		took := func(id string) time.Duration {
			begin := time.Now()
			member(t, w, id, false)
			return time.Since(begin)
		}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if d := took(fmt.Sprint("first", i)); d != waited {
					t.Errorf("waited %s, want %s", d, waited)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		// In the second that follows nobody waits, whoever he is.
		for i := range 1000 {
			if d := took(fmt.Sprint("next", i)); d != 0 {
				t.Fatalf("request %d waited %s behind the breaker", i, d)
			}
		}
		// And after it one does.
		time.Sleep(retried)
		var mu sync.Mutex
		waits := map[time.Duration]int{}
		for i := range 100 {
			all.Go(func() {
				d := took(fmt.Sprint("later", i))
				mu.Lock()
				defer mu.Unlock()
				waits[d]++
			})
		}
		all.Wait()
		synctest.Wait()
		if waits[waited] != 1 || waits[0] != 99 {
			t.Errorf("waits %v, want one of %s and 99 of none", waits, waited)
		}
		if got, want := w.Stats(), (Stats{Lookups: 21, Errors: 21, Unknown: 1120}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		failures(t, w, Late, 21)
	})
}

func TestARequestOfManyListsWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := over(t, &source{hang: true}, nil)
		begin := time.Now()
		for i := range 10 {
			if member, known := w.Ask(t.Context(), fmt.Sprint("route-", i), "ann"); member || known {
				t.Errorf("route %d: a member: %v, known: %v", i, member, known)
			}
		}
		if d := time.Since(begin); d != waited {
			t.Errorf("waited %s for ten lists, want %s", d, waited)
		}
	})
}

func TestWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := over(t, &source{users: map[string]bool{"ann": true}}, nil)
		for id, want := range map[string]bool{"ann": true, "bob": false, "": false} {
			if member, known := w.Ask(t.Context(), "shop", id); member != want || !known {
				t.Errorf("%q: a member: %v, known: %v", id, member, known)
			}
		}
	})
}

// A look-up that nobody waits for goes on for a second: a connection that takes
// longer than 50 ms to make can be used by the next one.
func TestALookupGoesOnWithoutItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{hang: true}
		w := over(t, s, nil)
		member(t, w, "ann", false)
		time.Sleep(patience - waited - 1)
		synctest.Wait()
		if got := s.ends(); len(got) != 0 {
			t.Errorf("ended early: %v", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := s.ends(); len(got) != 1 || !errors.Is(got[0], context.DeadlineExceeded) {
			t.Errorf("ended with %v, want one deadline", got)
		}
	})
}

func TestWhoGoesAwayEndsNobodysLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{users: map[string]bool{"ann": true}, slow: 30 * time.Millisecond}
		w := over(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			begin := time.Now()
			if w.Member(ctx, "shop", "ann") || time.Since(begin) != 10*time.Millisecond {
				t.Errorf("the one who left got an answer, or waited %s", time.Since(begin))
			}
		})
		all.Go(func() { member(t, w, "ann", true) })
		time.Sleep(10 * time.Millisecond)
		cancel()
		all.Wait()
		if got, want := w.Stats(), (Stats{Lookups: 1}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
	})
}

func TestNobodyIsLookedUpWithoutAnID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", longestID)
		s := &source{users: map[string]bool{"": true, " ": true, "\t": true, long: true, long + "x": true}}
		w := over(t, s, nil)
		for _, id := range []string{"", " ", "\t ", long + "x"} {
			member(t, w, id, false)
		}
		if n := s.questions(); n != 0 {
			t.Errorf("%d questions for no id", n)
		}
		member(t, w, long, true)
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{users: map[string]bool{"ann": true}}
		answers := newMemo(capacity, &counts{}, logger(nil), s.load)
		for i := range capacity + 500 {
			id := fmt.Sprint("user", i)
			answers.get(t.Context(), id, "shop", id)
			answers.get(t.Context(), "ann", "shop", "ann") // busy, so it stays
			if n := answers.cache.Len(); n > capacity {
				t.Fatalf("%d answers", n)
			}
		}
		if n := answers.cache.Len(); n != capacity {
			t.Errorf("%d answers, want %d", n, capacity)
		}
		if n := s.questions(); n != capacity+501 {
			t.Errorf("%d questions, want %d", n, capacity+501)
		}
		answers.get(t.Context(), "user0", "shop", "user0")
		if n := s.questions(); n != capacity+502 {
			t.Errorf("%d questions: the oldest answer was still there", n)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{users: map[string]bool{"ann": true}}
		w := over(t, s, nil)
		member(t, w, "ann", true)
		s.set(func(s *source) { s.hang = true })
		member(t, w, "bob", false)
		for range 2 {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if got := s.ends(); len(got) != 1 {
				t.Errorf("closed with a look-up in flight: %v", got)
			}
		}
		member(t, w, "ann", false)
		member(t, w, "eve", false)
		if n := s.questions(); n != 2 {
			t.Errorf("%d questions, want the 2 before the end", n)
		}
	})
}
