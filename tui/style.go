package tui

import (
	"io"
	"strings"

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
// A class is what stands before and behind a text: a style measures and cuts what it
// draws, which costs more than all else in a frame, and ours is one short line.
type palette [classes]struct{ before, behind string }

func newPalette(color bool) palette {
	// A renderer of our own: the library's global one looks at stdout and asks
	// the terminal.
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(termenv.ANSI)
	r.SetHasDarkBackground(true)
	var p palette
	for c, style := range styles(r, color) {
		p[c].before, p[c].behind, _ = strings.Cut(style.Render("x"), "x")
	}
	return p
}

func styles(r *lipgloss.Renderer, color bool) [classes]lipgloss.Style {
	s := r.NewStyle
	p := [classes]lipgloss.Style{
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
	return p[c].before + s + p[c].behind
}
