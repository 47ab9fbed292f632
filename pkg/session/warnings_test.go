package session

import (
	"strings"
	"testing"

	"lane/pkg/control"
	"lane/pkg/lane"
)

func TestWarnings(t *testing.T) {
	service := func(name string, in ...lane.Instance) *lane.Service { return lane.NewService(name, in, nil) }
	mine := lane.Instance{ID: "mine", MetaLane: "dev-alice", Local: true, Weight: 1}
	base := lane.Instance{ID: "base", Weight: 1}
	for _, c := range []struct {
		name    string
		service *lane.Service
		denied  bool
		want    string // in the only warning; empty: none
	}{
		{"a baseline beside the lane", service("orders", mine, base), false, ""},
		{"a baseline by name", service("orders", mine, lane.Instance{ID: "b", MetaLane: "baseline", Weight: 1}), false, ""},
		{"only the lane", service("orders", mine), false, "E_NO_BASELINE"},
		{"another lane is no baseline", service("orders", mine, lane.Instance{ID: "b", MetaTag: "dev-bob", Weight: 1}), false, "E_NO_BASELINE"},
		{"a local instance without a lane is no baseline", service("orders", lane.Instance{ID: "l", Local: true, Weight: 1}), false, "E_NO_BASELINE"},
		{"a malformed lane is no baseline", service("orders", lane.Instance{ID: "q", MetaLane: "Not A Lane", Weight: 1}), false, "E_NO_BASELINE"},
		{"not asked yet", &lane.Service{Name: "orders"}, false, ""},
		{"claims that may not be read", service("orders", base), true, "key:read"},
	} {
		cat := lane.NewCatalog(lane.Trust{}, nil, lane.Switches{}, c.service)
		cat.ClaimsUnknown, cat.ClaimsDenied = true, c.denied // unknown they are, too, until they have been read
		got := warnings(cat, []string{"orders"}, nil)
		if c.want == "" && len(got) != 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := warnings(lane.NewCatalog(lane.Trust{}, nil, lane.Switches{}), []string{"orders"}, nil); len(got) != 0 {
		t.Errorf("a service that nobody knows yet: %q", got)
	}
}

// Whoever has mistyped a service is told of the one that there is, and nobody else is.
func TestWarningsNameTheServiceThatIsMeant(t *testing.T) {
	all := []string{"order-service", "inventory", "order-servce", "lane-dev-bob-order-servce"}
	for given, want := range map[string]string{"order-servce": "order-service", "order-service": "order-servce", "inventory": "", "payments": "",
		"lane-dev-bob-order-servc": ""} {
		if got := meantBy(given, all); got != want {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
	cat := lane.NewCatalog(lane.Trust{}, nil, lane.Switches{}, lane.NewService("a", nil, nil), lane.NewService("b", []lane.Instance{{ID: "base", Weight: 1}}, nil))
	got := warnings(cat, []string{"a", "b"}, map[string]string{"a": "aa", "b": "bb"})
	if len(got) != 1 || !strings.HasSuffix(got[0], "; did you mean aa?") {
		t.Errorf("%q", got)
	}
}

func TestKilledBy(t *testing.T) {
	for _, c := range []struct {
		sw   lane.Switches
		want string
	}{
		{lane.Switches{}, ""},
		{lane.Switches{KilledLanes: []lane.Name{"dev-bob"}}, ""},
		{lane.Switches{KilledLanes: []lane.Name{"dev-bob", "dev-alice"}}, control.KilledLane},
		{lane.Switches{KillAll: true}, control.KilledAll},
		{lane.Switches{KillAll: true, KilledLanes: []lane.Name{"dev-alice"}}, control.KilledLane},
	} {
		if got := killed(&c.sw, "dev-alice"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.sw, got, c.want)
		}
	}
}
