package chain

import (
	"testing"

	"lane/pkg/lane"
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
	}{
		{"nothing", was, side("a", came, out("b", "", 35, 40)), ""},
		{"the lane", was, side("a", came, out("b", gray, 35, 40)), "it was in lane gray"},
		{"the tag alone", was, side("a", came, tagged), "a sent the tag gray, which was set right"},
		{"the tag without a trace", was, side("a", came, strayed(out("b", gray, 35, 40), 0)), "a sent the tag gray, and no trace"},
		{"another request's", was, side("a", came, strayed(out("b", gray, 35, 40), 1)), ""},
		{"the trace", side("a", in("a", gray, 5, 20), out("b", gray, 36, 40)), side("a", came), "a made it with the trace of the request before"},
		{"it came in the lane", was, side("a", in("a", gray, 30, 50)), "it was in lane gray"},
	} {
		first, second := []Seen{session(out("a", gray, 0, 25)), c.first}, []Seen{session(out("a", "", 26, 60)), c.second}
		got, hops := Residues(lane.Name(gray), first, second)
		why := ""
		if len(got) > 0 {
			why = got[0].Why
		}
		if len(got) > 1 || why != c.want || hops != len(c.second.Hops.Hops) {
			t.Errorf("%s: %v of %d hops, want %q", c.name, got, hops, c.want)
		}
	}
}
