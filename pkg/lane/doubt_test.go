package lane

import (
	"slices"
	"testing"
	"time"
)

// A registry that has just failed is decided by as before, and each decision says so; one
// that is well has no such warning.
func TestADoubtIsWarnedOfAndChangesNoDecision(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	decide := func(doubt RegistryState) Decision {
		c := NewCatalog(Trust{Since: now.Add(-3 * time.Second), Doubt: doubt}, nil, Switches{},
			NewService("orders", []Instance{{ID: "b1", Weight: 1}}, nil))
		return mustRouter(t, nil).Decide(c, Request{Service: "orders", Tag: ParseTag("gray"), Now: now})
	}
	for doubt, want := range map[RegistryState][]string{Fresh: nil, Stale: {"registry_stale_age_3s"}, Unreachable: {"registry_unreachable_age_3s"}} {
		d := decide(doubt)
		if d.Kind != KindFallback || d.Reason != ReasonLaneAbsent || d.RegistryAge != 0 {
			t.Errorf("doubt %d: %s %s, age %v", doubt, d.Kind, d.Reason, d.RegistryAge)
		}
		if !slices.Equal(d.Warnings, want) {
			t.Errorf("doubt %d: warnings %q, want %q", doubt, d.Warnings, want)
		}
	}
}
