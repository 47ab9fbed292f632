package consul_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

func TestWhitelistsAreNoRules(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutRules(t, c)
		push(t, c, 0, "one")
		if text, err := c.Whitelist(deadline(t), "shop"); text != nil || err != nil {
			t.Errorf("a list that is not there: %q, %v", text, err)
		}
		edit := func(route string, want bool, change func([]byte) []byte) {
			t.Helper()
			changed, err := c.EditWhitelist(deadline(t), route, func(old []byte) ([]byte, error) { return change(old), nil })
			if err != nil || changed != want {
				t.Errorf("edit %s: %v %v", route, changed, err)
			}
		}
		edit("shop", true, func(old []byte) []byte { return append(old, "ann\n"...) })
		edit("api/v2:x", true, func(old []byte) []byte { return append(old, "bob\n"...) })
		edit("shop", false, func(old []byte) []byte { return old })
		all, err := c.Whitelists(deadline(t))
		if err != nil || len(all) != 2 || string(all["shop"]) != "ann\n" || string(all["api/v2:x"]) != "bob\n" {
			t.Errorf("%q %v", all, err)
		}
		// They are no revisions and no proposals.
		push(t, c, 1, "two")
		if list, active, err := c.RuleHistory(deadline(t), 10); err != nil || active != 2 || len(list) != 2 {
			t.Errorf("%+v %d %v", list, active, err)
		}
		if p, err := c.RuleProposals(deadline(t)); err != nil || len(p) != 0 {
			t.Errorf("%+v %v", p, err)
		}
		if w := ruleWatch(t, c); w.State().Applied != 2 || w.State().Refused != 0 {
			t.Errorf("%+v", w.State())
		}
		edit("shop", true, func([]byte) []byte { return nil }) // an empty list goes
		if all, err := c.Whitelists(deadline(t)); err != nil || len(all) != 1 {
			t.Errorf("%q %v", all, err)
		}
		edit("shop", true, func([]byte) []byte { return []byte(strings.Repeat("x", 512<<10)) })
		var invalid *consul.ValidationError
		if _, err := c.EditWhitelist(deadline(t), "shop", func(old []byte) ([]byte, error) { return append(old, 'x'), nil }); !errors.As(err, &invalid) {
			t.Errorf("one byte too many: %v", err)
		}
	})
}

func TestNobodyOfAWhitelistIsLost(t *testing.T) {
	c := open(t, consultest.Embedded(t))
	const writers = 8
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			_, err := c.EditWhitelist(deadline(t), "shop", func(old []byte) ([]byte, error) { return append(old, byte('a'+i), '\n'), nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if text, err := c.Whitelist(deadline(t), "shop"); err != nil || len(text) != 2*writers {
		t.Errorf("%q %v", text, err)
	}
}

func TestRoutesThatLeadElsewhere(t *testing.T) {
	c := open(t, "127.0.0.1:1") // nobody is to be asked
	var invalid *consul.ValidationError
	for _, route := range []string{"", ".", "..", "../active/current", "a/../../active/current", "a//b", "/a", "a/", "a b", "a?raw", "a%2e", "é", strings.Repeat("a", 64)} {
		if _, err := c.Whitelist(deadline(t), route); !errors.As(err, &invalid) {
			t.Errorf("read %q: %v", route, err)
		}
		if _, err := c.EditWhitelist(deadline(t), route, nil); !errors.As(err, &invalid) {
			t.Errorf("edit %q: %v", route, err)
		}
	}
}
