package chain

import (
	"testing"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

func TestResidues(t *testing.T) {
	was := side("a", in("a", gray, 5, 20), out("b", gray, 10, 15))
	came := in("a", "baseline", 30, 50)
	came.Lane = ""
	tagged := out("b", "", 35, 40)
	tagged.Tag = gray
	for _, c := range []struct {
		name          string
		first, second Seen
		want          string
		met           int
	}{
		{"nothing", was, side("a", came, out("b", "", 35, 40)), "", 1},
		{"the lane", was, side("a", came, out("b", gray, 35, 40)), "it was in lane gray", 1},
		{"the tag alone", was, side("a", came, tagged), "a sent the tag gray, which was set right", 1},
		{"the tag without a trace", was, side("a", came, strayed(out("b", gray, 35, 40), 0)), "a sent the tag gray, and no trace", 1},
		{"another request's", was, side("a", came, strayed(out("b", gray, 35, 40), 1)), "", 1},
		{"the trace", side("a", in("a", gray, 5, 20), out("b", gray, 36, 40)), side("a", came), "a made it with the trace of the request before", 1},
		{"the first one had no tag", side("a", with(in("a", "", 5, 20), func(h *Hop) { h.Tag = "" })), side("a", came), "", 0},
		{"a gateway did not trust its tag", Seen{Hops: Hops{Hops: []Hop{hop(traffic.FrontGateway, "a", gray, "", 5, 20)}}},
			Seen{Hops: Hops{Hops: []Hop{hop(traffic.FrontGateway, "a", "", "", 30, 50)}}}, "", 0},
		{"the first one was nowhere", side("a"), side("a", came), "", 0},
		{"the second one was nowhere", was, side("a"), "", 0},
		{"it came in the lane", was, side("a", in("a", gray, 30, 50)), "it was in lane gray", 1},
	} {
		first, second := []Seen{session(out("a", gray, 0, 25)), c.first}, []Seen{session(out("a", "", 26, 60)), c.second}
		got, hops, met := Residues(lane.Name(gray), first, second)
		why := ""
		if len(got) > 0 {
			why = got[0].Why
		}
		if len(got) > 1 || why != c.want || hops != len(c.second.Hops.Hops) || met != c.met {
			t.Errorf("%s: %v of %d hops, %d met; want %q, %d met", c.name, got, hops, met, c.want, c.met)
		}
	}
}
