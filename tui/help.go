package tui

import (
	"strings"

	"lane/pkg/traffic"
)

// helpLines is the help, made from the keys, the route words and the filter
// language themselves. Two columns where they fit.
func helpLines(binds []binding, quitting string, owner bool, w int) []cell {
	keys := []cell{{"KEYS", bold}}
	for _, b := range binds {
		h := b.Help()
		if h.Desc == "" {
			continue
		}
		means := h.Desc
		switch {
		case b.act == actQuit:
			means = quitting
		case b.act == actInterrupt && !owner:
			means = "the same as q"
		}
		keys = append(keys, cell{fit(h.Key, 12) + means, plain})
	}

	// A call of the local process looks like one of the developer's: both come
	// from this machine, and either may bring a tag or none.
	keys = append(keys, cell{fit("FROM me", 12) + "is you or your process", plain})

	words := []cell{{"MARKS  ! error > fallback x sent away", bold}}
	for _, r := range []string{traffic.RouteLane, traffic.RouteBase, traffic.RouteFallback, traffic.RouteKilled,
		traffic.RouteGuard, traffic.RouteLost, traffic.RouteExternal, traffic.RouteError} {
		words = append(words, cell{fit(r, 8) + routeMeans(r), routeClass(r)})
	}
	words = append(words, cell{}, cell{"FILTER  a b and  -a not  a|b or", bold})
	for _, k := range traffic.FilterKeys() {
		s := fit(k.Key+":", 7) + k.Values
		if w >= wideWidth-2 {
			s = fit(s, 40) + k.Means
		}
		words = append(words, cell{s, plain})
	}

	const left = 39
	if w < left+39 {
		return append(append(keys, cell{}), words...)
	}
	lines := make([]cell, 0, max(len(keys), len(words)))
	for i := range max(len(keys), len(words)) {
		var l, r cell
		if i < len(keys) {
			l = keys[i]
		}
		if i < len(words) {
			r = words[i]
		}
		c := r.class
		if l.class == bold && r.class == bold {
			c = bold
		} else if l.text != "" {
			c = plain
		}
		lines = append(lines, cell{strings.TrimRight(fit(l.text, left)+r.text, " "), c})
	}
	return lines
}
