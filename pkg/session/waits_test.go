package session

import "testing"

func TestWhatAnEndWaitsFor(t *testing.T) {
	for of, want := range map[[2]int]string{
		{1, 0}: "1 request under way", {0, 1}: "1 own call under way",
		{2, 0}: "2 requests under way", {3, 12}: "3 requests and 12 own calls under way",
	} {
		if got := underWay(of[0], of[1]); got != want {
			t.Errorf("%v: %q", of, got)
		}
	}
}
