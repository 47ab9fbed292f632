package tui

import (
	"io"
	"testing"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
)

func FuzzWide(f *testing.F) {
	for _, s := range append(nasty, "\x1b[1;7mab\x1b[0m c", "\x1b[1", "\x1b[", "\x1b", "\x1b[1;x", "a\x1b[2Jb", "\x1b[m", "é\x1b[0m", "~ ") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := wide(s), ansi.StringWidth(s); got != want {
			t.Errorf("%q is %d columns wide, not %d", s, want, got)
		}
	})
}

// What is painted is what lipgloss paints.
func TestPaint(t *testing.T) {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(termenv.ANSI)
	for _, color := range []bool{false, true} {
		p := newPalette(color)
		for c, want := range styles(r, color) {
			for _, s := range []string{"a", "two words ", " > users  ", "é漢"} {
				if got := p.paint(class(c), s); got != want.Render(s) {
					t.Errorf("class %d, color %v: %q, want %q", c, color, got, want.Render(s))
				}
			}
			if got := p.paint(class(c), ""); got != "" {
				t.Errorf("nothing is painted as %q", got)
			}
		}
	}
}
