package tui

import "github.com/charmbracelet/x/ansi"

// wide is how many columns s takes. Nearly all that is drawn is ASCII between our own
// attributes, and each line of each frame is measured: that needs no grapheme
// clusters.
func wide(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 0x20 && c < 0x7f:
			n++
		case c == 0x1b && i+1 < len(s) && s[i+1] == '[':
			for i += 2; i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == ';'); i++ {
			}
			if i == len(s) || s[i] != 'm' {
				return ansi.StringWidth(s)
			}
		default:
			return ansi.StringWidth(s)
		}
	}
	return n
}
