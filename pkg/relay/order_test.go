package relay

import (
	"slices"
	"testing"
)

// A claim has the port at which the registry still shows it, and another one's only when
// there is no other.
func TestTheOrderOfPorts(t *testing.T) {
	own := func(id string) bool { return id == "mine" }
	for name, c := range map[string]struct {
		had  map[int][]string
		want []int
	}{
		"nothing is registered": {nil, []int{1, 2, 3, 4}},
		"its own":               {map[int][]string{3: {"mine"}}, []int{3, 1, 2, 4}},
		"another's":             {map[int][]string{1: {"theirs"}, 2: {"theirs"}}, []int{3, 4, 1, 2}},
		"both":                  {map[int][]string{1: {"theirs"}, 4: {"mine"}}, []int{4, 2, 3, 1}},
		"both at one":           {map[int][]string{2: {"theirs", "mine"}}, []int{2, 1, 3, 4}},
		"every one is":          {map[int][]string{1: {"a"}, 2: {"b"}, 3: {"c"}, 4: {"d"}}, []int{1, 2, 3, 4}},
		"none of the range":     {map[int][]string{9: {"theirs"}}, []int{1, 2, 3, 4}},
	} {
		if got := (Ports{First: 1, Last: 4}).order(c.had, own); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
