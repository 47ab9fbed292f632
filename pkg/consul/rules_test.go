package consul_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

// withoutRules begins and ends without rules: the real registry is shared.
func withoutRules(t *testing.T, c *consul.Client) {
	t.Helper()
	consul.DeleteKeys(t, c, "lane/rules/")
	t.Cleanup(func() { consul.DeleteKeys(t, c, "lane/rules/") })
}

func draft(base int, document string) consul.RuleDraft {
	return consul.RuleDraft{Document: []byte(document), Author: "alice@box", Time: "yesterday, by my clock", Note: "why: <b> & \"c\"", Base: base}
}

func push(t *testing.T, c *consul.Client, base int, document string) consul.RuleRevision {
	t.Helper()
	r, changed, err := c.PushRules(deadline(t), draft(base, document))
	if err != nil || !changed {
		t.Fatalf("push: changed=%v, %v", changed, err)
	}
	return r
}

func TestRevisionsOfTheRules(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutRules(t, c)
		var none *consul.NoRevisionError
		if _, err := c.ActiveRules(deadline(t)); !errors.As(err, &none) {
			t.Fatalf("without rules: %v", err)
		}
		if list, active, err := c.RuleHistory(deadline(t), 10); err != nil || len(list) != 0 || active != 0 {
			t.Fatalf("without rules: %v %d %v", list, active, err)
		}
		one := push(t, c, 0, "rules: <one>\n# é &\n")
		if one.Revision != 1 || one.Author != "alice@box" || one.Time != "yesterday, by my clock" || one.Note != "why: <b> & \"c\"" {
			t.Errorf("%+v", one)
		}
		two := push(t, c, 1, "rules: two\n")
		got, err := c.ActiveRules(deadline(t))
		if err != nil || got.Revision != 2 || string(got.Document) != "rules: two\n" || got.SHA256 != two.SHA256 {
			t.Errorf("%+v %v", got, err)
		}
		if old, err := c.Rules(deadline(t), 1); err != nil || !bytes.Equal(old.Document, one.Document) || string(old.Document) != "rules: <one>\n# é &\n" {
			t.Errorf("%+v %v", old, err)
		}
		if _, err := c.Rules(deadline(t), 3); !errors.As(err, &none) || none.Revision != 3 {
			t.Errorf("a revision that is not there: %v", err)
		}
		// The same document again is no news, whatever the base.
		if r, changed, err := c.PushRules(deadline(t), draft(1, "rules: two\n")); err != nil || changed || r.Revision != 2 {
			t.Errorf("%+v %v %v", r, changed, err)
		}
		back, changed, err := c.RollbackRules(deadline(t), 1, draft(2, ""))
		if err != nil || !changed || back.Revision != 3 || back.RollbackOf != 1 || !bytes.Equal(back.Document, one.Document) {
			t.Errorf("%+v %v %v", back, changed, err)
		}
		if _, _, err := c.RollbackRules(deadline(t), 9, draft(3, "")); !errors.As(err, &none) {
			t.Errorf("back to what is not there: %v", err)
		}
		list, active, err := c.RuleHistory(deadline(t), 2)
		if err != nil || active != 3 || len(list) != 2 || list[0].Revision != 3 || list[1].Revision != 2 {
			t.Errorf("%+v %d %v", list, active, err)
		}
	})
}

func TestNobodysRevisionIsLost(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutRules(t, c)
		push(t, c, 0, "one")
		push(t, c, 1, "two")
		var moved *consul.RulesMovedError
		if _, _, err := c.PushRules(deadline(t), draft(1, "three")); !errors.As(err, &moved) || moved.Active != 2 || moved.Base != 1 {
			t.Errorf("a push onto an old revision: %v", err)
		}
		// Of many at once on one base, one is the next.
		var won atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				_, changed, err := c.PushRules(deadline(t), draft(2, "many "+strings.Repeat("x", i)))
				var moved *consul.RulesMovedError
				if changed {
					won.Add(1)
				} else if !errors.As(err, &moved) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got, err := c.ActiveRules(deadline(t)); err != nil || got.Revision != 3 || won.Load() != 1 {
			t.Errorf("%d won, revision %d, %v", won.Load(), got.Revision, err)
		}
	})
}

func TestWhatIsSpoiledByHand(t *testing.T) {
	c := open(t, consultest.Embedded(t))
	push(t, c, 0, "one")
	var broken *consul.BrokenRevisionError
	consul.PutKey(t, c, "lane/rules/active/revisions/00000001", `{"author":"eve","document":"other"}`)
	if _, err := c.ActiveRules(deadline(t)); !errors.As(err, &broken) {
		t.Errorf("a document that was changed: %v", err)
	}
	if r := push(t, c, 1, "one"); r.Revision != 2 { // what was spoiled is written anew
		t.Errorf("%+v", r)
	}
	consul.PutKey(t, c, "lane/rules/active/current", "nonsense")
	if _, err := c.ActiveRules(deadline(t)); !errors.As(err, &broken) {
		t.Errorf("a pointer to nowhere: %v", err)
	}
	if r := push(t, c, 0, "three"); r.Revision != 3 {
		t.Errorf("%+v", r)
	}
	consul.PutKey(t, c, "lane/rules/active/current", "")
	if r := push(t, c, 0, "four"); r.Revision != 4 { // no number is used twice
		t.Errorf("%+v", r)
	}
	consul.PutKey(t, c, "lane/rules/active/revisions/00000004", "nonsense")
	if _, err := c.Rules(deadline(t), 4); !errors.As(err, &broken) {
		t.Errorf("a revision that is none: %v", err)
	}
}

func TestDraftsThatTheRegistryCannotKeep(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutRules(t, c)
		var invalid *consul.ValidationError
		for what, d := range map[string]consul.RuleDraft{
			"too long":      draft(0, strings.Repeat("x", consul.MaxRules+1)),
			"many quotes":   draft(0, strings.Repeat("\"", 195_000)),
			"no text":       draft(0, "a\xffb"),
			"a long note":   {Document: []byte("x"), Note: strings.Repeat("n", 5000)},
			"a long author": {Document: []byte("x"), Author: strings.Repeat("n", 500)},
		} {
			if _, _, err := c.PushRules(deadline(t), d); !errors.As(err, &invalid) {
				t.Errorf("push %s: %v", what, err)
			}
			if _, _, err := c.ProposeRules(deadline(t), d); !errors.As(err, &invalid) {
				t.Errorf("propose %s: %v", what, err)
			}
		}
		// The longest does fit, also with characters that JSON escapes, and so does as
		// much of those alone as is let in.
		push(t, c, 0, strings.Repeat("- a: \"b\"\n", consul.MaxRules/9))
		push(t, c, 1, strings.Repeat("x", consul.MaxRules))
		push(t, c, 2, strings.Repeat("\"", 194_000))
		if _, _, err := c.ProposeRules(deadline(t), draft(3, strings.Repeat("\"", 193_999)+"x")); err != nil {
			t.Error(err)
		}
	})
}

func TestProposals(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutRules(t, c)
		push(t, c, 0, "one")
		p, _, err := c.ProposeRules(deadline(t), draft(1, "two"))
		if err != nil {
			t.Fatal(err)
		}
		second := draft(1, "two")
		second.Author, second.Note = "mallory@desk", "mine"
		again, made, err := c.ProposeRules(deadline(t), second)
		if err != nil || made || again.ID != p.ID || !consul.IsProposalID(p.ID) || again.Author != p.Author || again.Note != p.Note {
			t.Errorf("the same again: %+v made %v, %v", again, made, err)
		}
		if kept, err := c.RuleProposal(deadline(t), p.ID); err != nil || kept.Author != "alice@box" || kept.Note != p.Note {
			t.Errorf("the first one is kept: %+v %v", kept, err)
		}
		var active *consul.RulesActiveError
		if _, _, err := c.ProposeRules(deadline(t), draft(1, "one")); !errors.As(err, &active) || active.Revision != 1 {
			t.Errorf("what is active: %v", err)
		}
		late, _, err := c.ProposeRules(deadline(t), draft(1, "three"))
		if err != nil {
			t.Fatal(err)
		}
		if list, err := c.RuleProposals(deadline(t)); err != nil || len(list) != 2 {
			t.Fatalf("%+v %v", list, err)
		}
		if got, err := c.ActiveRules(deadline(t)); err != nil || got.Revision != 1 {
			t.Fatalf("a proposal routes nothing: %+v %v", got, err)
		}
		r, changed, err := c.ApproveRules(deadline(t), p.ID, consul.RuleDraft{Author: "bob@desk"})
		if err != nil || !changed || r.Revision != 2 || string(r.Document) != "two" || r.Author != "bob@desk" ||
			r.ProposedBy != "alice@box" || r.Proposal != p.ID || r.Note != p.Note {
			t.Errorf("%+v %v %v", r, changed, err)
		}
		if r, changed, err := c.ApproveRules(deadline(t), p.ID, consul.RuleDraft{Author: "bob@desk"}); err != nil || changed || r.Revision != 2 {
			t.Errorf("approved twice: %+v %v %v", r, changed, err)
		}
		var moved *consul.RulesMovedError
		if _, _, err := c.ApproveRules(deadline(t), late.ID, consul.RuleDraft{}); !errors.As(err, &moved) {
			t.Errorf("a proposal that was overtaken: %v", err)
		}
		if _, _, err := c.ProposeRules(deadline(t), draft(1, "four")); !errors.As(err, &moved) {
			t.Errorf("a proposal on an old revision: %v", err)
		}
		var none *consul.NoProposalError
		for _, id := range []string{strings.Repeat("0", 32), "../active/current", ""} {
			if _, _, err := c.ApproveRules(deadline(t), id, consul.RuleDraft{}); !errors.As(err, &none) {
				t.Errorf("%q: %v", id, err)
			}
		}
		for _, want := range []bool{true, false} {
			if found, err := c.WithdrawRules(deadline(t), late.ID); err != nil || found != want {
				t.Errorf("withdraw: %v %v", found, err)
			}
		}
	})
}

// What was reviewed is what is approved, also when its author writes over it.
func TestAProposalCannotBeChanged(t *testing.T) {
	c := open(t, consultest.Embedded(t))
	p, _, err := c.ProposeRules(deadline(t), draft(0, "good"))
	if err != nil {
		t.Fatal(err)
	}
	consul.PutKey(t, c, "lane/rules/proposed/"+p.ID, `{"author":"alice@box","document":"bad"}`)
	var broken *consul.BrokenRevisionError
	if _, _, err := c.ApproveRules(deadline(t), p.ID, consul.RuleDraft{Author: "bob"}); !errors.As(err, &broken) {
		t.Errorf("approved: %v", err)
	}
	if list, err := c.RuleProposals(deadline(t)); err != nil || len(list) != 0 {
		t.Errorf("listed: %+v %v", list, err)
	}
	anew := draft(0, "good")
	anew.Author = "carol@desk"
	if again, made, err := c.ProposeRules(deadline(t), anew); err != nil || !made || again.ID != p.ID || again.Author != "carol@desk" {
		t.Errorf("what was written over is set right: %+v %v %v", again, made, err)
	}
	if found, err := c.WithdrawRules(deadline(t), p.ID); err != nil || !found {
		t.Errorf("it can be removed: %v %v", found, err)
	}
}
