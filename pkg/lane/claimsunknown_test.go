package lane

import (
	"slices"
	"strings"
	"testing"
)

// Without the claims, a lane that is declared looks like one that is not.
func TestClaimsThatAreUnknownProveNoAbsence(t *testing.T) {
	orders := func(ins ...Instance) *Service {
		return NewService("orders", append([]Instance{{ID: "b", Weight: 1}}, ins...), nil)
	}
	here := Instance{ID: "g", Weight: 1, MetaLane: "gray"}
	sick, drained := here, here
	sick.Health, drained.Draining = Critical, true
	for name, c := range map[string]struct {
		s             *Service
		tag           string
		known, unseen Reason // with the claims, and without them
	}{
		"absent":   {orders(), "gray", ReasonLaneAbsent, ReasonAbsenceNotTrusted},
		"here":     {orders(here), "gray", ReasonLaneMatch, ReasonLaneMatch},
		"sick":     {orders(sick), "gray", ReasonLaneRegisteredUnhealthy, ReasonLaneRegisteredUnhealthy},
		"drained":  {orders(drained), "gray", ReasonLaneDrained, ReasonLaneDrained},
		"untagged": {orders(), "", ReasonUntagged, ReasonUntagged},
		"baseline": {orders(), "baseline", ReasonExplicitBaseline, ReasonExplicitBaseline},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustRouter(t, func(*Policy) {})
			cat := NewCatalog(Trust{}, nil, Switches{}, c.s)
			req := Request{Service: "orders", Tag: ParseTag(c.tag)}
			if d := r.Decide(cat, req); d.Reason != c.known {
				t.Errorf("claims known: %s, want %s", d.Reason, c.known)
			}
			cat.ClaimsUnknown = true
			d := r.Decide(cat.WithTrust(Trust{}), req)
			if d.Reason != c.unseen {
				t.Errorf("claims unknown: %s, want %s", d.Reason, c.unseen)
			}
			said := slices.Contains(d.Warnings, "claims_unknown") && d.Code == CodeRegistryStale &&
				strings.Contains(d.Hint(), "lane/declared/") && strings.Contains(d.Message(), "gray may hold orders")
			if said != (c.unseen == ReasonAbsenceNotTrusted) {
				t.Errorf("%s %v %q %q", d.Code, d.Warnings, d.Message(), d.Hint())
			}
		})
	}
}
