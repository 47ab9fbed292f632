package lane

import (
	"math"
	"strconv"
	"strings"
)

// Hops is how many proxies of ours a request has passed, by its x-lane-hops. A
// malformed count is 0 and reports false: it is worth a warning, and breaks no
// request. Digits that pass any number are the largest number, and of several
// counts the largest counts.
func Hops(h map[string][]string) (n int, ok bool) {
	ok = true
	for _, line := range get(h, HeaderHops) {
		v := strings.Trim(line, " \t")
		if v == "" {
			continue
		}
		m, err := strconv.ParseUint(v, 10, 31)
		switch {
		case err == nil:
			n = max(n, int(m))
		case strings.Trim(v, "0123456789") == "":
			n = math.MaxInt32
		default:
			ok = false
		}
	}
	return n, ok
}

// WriteHops sets x-lane-hops, as its literal lower-case key.
func WriteHops(h map[string][]string, n int) {
	set(h, HeaderHops, []string{strconv.Itoa(max(n, 0))})
}
