package chain

import (
	"testing"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// The lane of a trace is the one nearest to the entry, whatever a hop behind it made of
// it, and whoever is asked first.
func TestLaneOf(t *testing.T) {
	gate := func(went lane.Name, from int) Seen {
		return Seen{Hops: Hops{Hops: []Hop{hop(traffic.FrontGateway, "a", "", went, from, from+9)}}}
	}
	tests := []struct {
		name string
		seen []Seen
		want lane.Name
	}{
		{"nothing", nil, ""},
		{"none has one", []Seen{gate("", 0), side("a", in("a", "", 1, 8))}, ""},
		{"the baseline by name is none", []Seen{gate(lane.BaselineTag, 0), side("a", in("a", "baseline", 1, 8))}, ""},
		{"the entry's", []Seen{side("b", in("b", "other", 3, 4)), gate(gray, 0), side("a", in("a", gray, 1, 8))}, gray},
		{"the entry's, by a clock that is late", []Seen{side("b", in("b", "other", 3, 4)), gate(gray, 100)}, gray},
		{"without a gateway the first", []Seen{side("b", in("b", "other", 3, 4)), side("a", in("a", gray, 1, 8))}, gray},
		{"lost at the entry", []Seen{gate("", 0), side("a", in("a", gray, 1, 8))}, gray},
		{"not that of a call without the trace", []Seen{side("a", in("a", "", 1, 8), strayed(out("b", "other", 2, 3), 1))}, ""},
	}
	for _, tt := range tests {
		if got := LaneOf(tt.seen); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A trace without a lane has lost none: with or without the baseline's name at its hops.
func TestATraceWithoutALane(t *testing.T) {
	for _, tag := range []string{"", lane.BaselineTag} {
		got := Judge(Rules{}, "t", []Seen{
			{Hops: Hops{Hops: []Hop{hop(traffic.FrontGateway, "a", "", "", 0, 10)}}},
			side("a", hop(traffic.FrontSidecar, "a", tag, "", 1, 9), out("b", "", 2, 8)),
			side("b", hop(traffic.FrontSidecar, "b", tag, "", 3, 7)),
		})
		if got.Verdict != Complete || shape(got) != "gateway>a equal\n a>b equal\ncomplete" {
			t.Errorf("%q: %s\n%s", tag, got.Verdict, shape(got))
		}
		// With the lane that it should have had, it is lost at the entry.
		got = Judge(Rules{Lane: gray}, "t", []Seen{{Hops: Hops{Hops: []Hop{hop(traffic.FrontGateway, "a", "", "", 0, 10)}}}})
		if got.Verdict != Broken {
			t.Errorf("%q: %s", tag, got.Verdict)
		}
	}
}
