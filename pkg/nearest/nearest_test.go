package nearest

import (
	"slices"
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	names := []string{"match", "priority", "trustHeader", "entry"}
	for given, want := range map[string]string{"mathc": "match", "Match": "match", "prioritty": "priority", "trust_header": "trustHeader",
		"enrty": "entry", "x": "", "": "", "lane": "", "matchmaking": "", strings.Repeat("m", 1000): ""} {
		if got := Word(given, names); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	all := []string{"order-service", "orders", "inventory", "user-service", "consul", strings.Repeat("order", 100)}
	for name, want := range map[string][]string{
		"order-servise": {"order-service"},
		"order":         {"orders", "order-service"},
		"inventroy":     {"inventory"},
		"zzzz":          nil,
		all[5]:          nil, // nobody waits for that comparison
	} {
		if got := Words(name, all); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"kitten", "sitting", 3}, {"", "ab", 2}, {"ab", "", 2}, {"a", "a", 0}, {"enrty", "entry", 1}, {"abcd", "badc", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
