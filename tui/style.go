package tui

import (
	"io"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// class is what a piece of text is; the palette says how that looks.
type class uint8

const (
	plain class = iota
	bold
	faint
	selected
	laneText
	warnText
	badText
	guardText
	classes
)

// palette draws classes with ANSI's 16 colours, which a user's own terminal
// theme maps to something readable. Without colour bold, faint and reverse stay:
// they are no colours, and the words and marks say everything anyway.
type palette [classes]lipgloss.Style

func newPalette(color bool) palette {
	// A renderer of our own: the library's global one looks at stdout and asks
	// the terminal.
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(termenv.ANSI)
	r.SetHasDarkBackground(true)
	s := r.NewStyle
	p := palette{
		plain:     s(),
		bold:      s().Bold(true),
		faint:     s().Faint(true),
		selected:  s().Reverse(true).Bold(true),
		laneText:  s(),
		warnText:  s().Bold(true),
		badText:   s().Bold(true),
		guardText: s(),
	}
	if color {
		p[laneText] = s().Foreground(lipgloss.Color("12")) // 4 is too dark on black
		p[warnText] = s().Foreground(lipgloss.Color("3"))
		p[badText] = s().Foreground(lipgloss.Color("1"))
		p[guardText] = s().Foreground(lipgloss.Color("5"))
	}
	return p
}

// paint draws one line of text.
func (p *palette) paint(c class, s string) string {
	if c == plain || s == "" {
		return s
	}
	return p[c].Render(s)
}
