package consul_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

var errUnfit = errors.New("line 1: no rules")

// parsed is what the tests make of a document: two words that must be equal.
type parsed struct{ a, b string }

func parseTwice(r consul.RuleRevision) (parsed, error) {
	if strings.HasPrefix(string(r.Document), "bad") {
		return parsed{}, errUnfit
	}
	return parsed{string(r.Document), string(r.Document)}, nil
}

func ruleWatch(t *testing.T, c *consul.Client) *consul.RuleWatch[parsed] {
	t.Helper()
	w := consul.NewRuleWatch(c, consul.WatchOptions{MinPause: time.Millisecond, MaxPause: 10 * time.Millisecond}, parseTwice, nil)
	background(t, w.Run)
	select {
	case <-w.Settled():
	case <-deadline(t).Done():
		t.Fatal("the watch has no outcome")
	}
	return w
}

func TestRulesComeToHold(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutRules(t, c)
		w := ruleWatch(t, c)
		if s := w.State(); w.Applied() != nil || s != (consul.RuleState{}) {
			t.Fatalf("without rules: %+v", s)
		}
		push(t, c, 0, "one")
		eventually(t, "revision 1", func() bool { a := w.Applied(); return a != nil && a.Revision.Revision == 1 && a.Rules.a == "one" })

		// A broken document never replaces a good one, and is reported.
		push(t, c, 1, "bad")
		eventually(t, "the refusal", func() bool { return w.State().Refused == 2 })
		if s := w.State(); s.Applied != 1 || !errors.Is(s.Why, errUnfit) || s.Err != nil || w.Applied().Rules.a != "one" {
			t.Errorf("%+v %+v", s, w.Applied())
		}
		if late := ruleWatch(t, c); late.Applied() != nil || late.State().Refused != 2 {
			t.Errorf("a watch that begins now: %+v", late.State())
		}
		push(t, c, 2, "three")
		eventually(t, "revision 3", func() bool { return w.State().Applied == 3 && w.State().Refused == 0 })
		if w.State().Why != nil {
			t.Errorf("%+v", w.State())
		}

		// Nothing is concluded from absence.
		consul.DeleteKeys(t, c, "lane/rules/")
		eventually(t, "that is said", func() bool { return w.State().Why != nil })
		if w.Applied().Revision.Revision != 3 {
			t.Errorf("%+v", w.Applied())
		}
	})
}

// A revision that is refused, or that comes to hold, is told of once, however often
// the registry answers, and another one is told of again.
func TestEachChangeIsToldOnce(t *testing.T) {
	c := open(t, consultest.Embedded(t))
	told := make(chan consul.RuleState, 100)
	w := consul.NewRuleWatch(c, consul.WatchOptions{MinPause: time.Millisecond, MaxPause: 10 * time.Millisecond}, parseTwice,
		func(s consul.RuleState) { told <- s })
	background(t, w.Run)
	next := func() consul.RuleState {
		t.Helper()
		select {
		case s := <-told:
			return s
		case <-deadline(t).Done():
			t.Fatal("nobody was told")
			return consul.RuleState{}
		}
	}
	<-w.Settled() // what holds from the beginning is no change
	push(t, c, 0, "one")
	if s := next(); s.Applied != 1 || s.Why != nil {
		t.Errorf("%+v", s)
	}
	push(t, c, 1, "bad")
	if s := next(); s.Refused != 2 || !errors.Is(s.Why, errUnfit) || s.Refusals != 1 || s.Applied != 1 {
		t.Errorf("%+v", s)
	}
	for i := range 5 { // the same pointer, written anew, wakes the watch
		consul.PutKey(t, c, "lane/rules/active/current", consul.GetKey(t, c, "lane/rules/active/current")+strings.Repeat(" ", i+1))
	}
	push(t, c, 2, "bad too")
	if s := next(); s.Refused != 3 || s.Refusals != 2 {
		t.Errorf("%+v", s)
	}
	push(t, c, 3, "four")
	if s := next(); s.Applied != 4 || s.Refused != 0 || s.Why != nil {
		t.Errorf("%+v", s)
	}
	consul.DeleteKeys(t, c, "lane/rules/")
	if s := next(); s.Refused != 0 || s.Applied != 4 || s.Why == nil || s.Refusals != 3 {
		t.Errorf("%+v", s)
	}
	if len(told) > 0 || w.State().Refusals != 3 {
		t.Errorf("told of %+v, %+v", <-told, w.State())
	}
}

func TestAPointerOrADocumentThatIsSpoiled(t *testing.T) {
	c := open(t, consultest.Embedded(t))
	w := ruleWatch(t, c)
	push(t, c, 0, "one")
	eventually(t, "revision 1", func() bool { return w.State().Applied == 1 })
	for _, v := range []string{"nonsense", `{"revision":7,"sha256":"x"}`, `{"revision":1,"sha256":"x"}`} {
		consul.PutKey(t, c, "lane/rules/active/current", v)
		eventually(t, "the refusal of "+v, func() bool { return w.State().Why != nil })
		if w.State().Applied != 1 || w.Applied().Rules.a != "one" {
			t.Errorf("%+v", w.State())
		}
		push(t, c, w.State().Refused, "two "+v)
		eventually(t, "that it is well again", func() bool { return w.State().Why == nil })
		consul.DeleteKeys(t, c, "lane/rules/")
		push(t, c, 0, "one")
		eventually(t, "revision 1 again", func() bool { s := w.State(); return s.Applied == 1 && s.Why == nil && w.Applied().Rules.a == "one" })
	}
}

func TestRulesWhileTheRegistryIsAway(t *testing.T) {
	addr := consultest.Embedded(t)
	direct, f := open(t, addr), newFront(t, addr)
	push(t, direct, 0, "one")
	w := ruleWatch(t, open(t, f.addr))
	if w.State().Applied != 1 {
		t.Fatalf("%+v", w.State())
	}
	f.set(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	f.CloseClientConnections()
	eventually(t, "the failure", func() bool { return w.State().Err != nil })
	push(t, direct, 1, "two")
	if s := w.State(); s.Applied != 1 || w.Applied().Rules.a != "one" {
		t.Errorf("%+v", s)
	}
	f.set(nil)
	eventually(t, "revision 2", func() bool { return w.State().Applied == 2 && w.State().Err == nil })
}

// Readers see one revision at a time, however fast they change.
func TestReadersSeeOneRevision(t *testing.T) {
	c := open(t, consultest.Embedded(t))
	w := ruleWatch(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if a := w.Applied(); a != nil && (a.Rules.a != a.Rules.b || string(a.Revision.Document) != a.Rules.a) {
					t.Errorf("%+v", a)
					return
				}
			}
		})
	}
	for i := range 20 {
		push(t, c, i, strings.Repeat("x", i+1))
	}
	eventually(t, "the last revision", func() bool { return w.State().Applied == 20 })
	cancel()
	readers.Wait()
}
