package tui

import (
	tea "github.com/charmbracelet/bubbletea"
)

// line is one line of text that is being typed. It has no blinking cursor: a
// screen on which nothing happens draws nothing.
type line struct {
	runes []rune
	pos   int // the cursor, 0..len(runes)
}

// lineMost is the most characters that a line takes.
const lineMost = 500

func newLine(s string) line {
	r := []rune(s)
	return line{runes: r, pos: len(r)}
}

func (l line) String() string { return string(l.runes) }

// press applies a key of editing and reports whether it was one.
func (l line) press(msg tea.KeyMsg) (line, bool) {
	switch msg.String() {
	case "left", "ctrl+b":
		l.pos = max(l.pos-1, 0)
	case "right", "ctrl+f":
		l.pos = min(l.pos+1, len(l.runes))
	case "home", "ctrl+a":
		l.pos = 0
	case "end", "ctrl+e":
		l.pos = len(l.runes)
	case "backspace", "ctrl+h":
		return l.erase(max(l.pos-1, 0), l.pos), true
	case "delete", "ctrl+d":
		return l.erase(l.pos, min(l.pos+1, len(l.runes))), true
	case "ctrl+u":
		return l.erase(0, l.pos), true
	case "ctrl+k":
		return l.erase(l.pos, len(l.runes)), true
	case "ctrl+w":
		from := l.pos
		for from > 0 && l.runes[from-1] == ' ' {
			from--
		}
		for from > 0 && l.runes[from-1] != ' ' {
			from--
		}
		return l.erase(from, l.pos), true
	default:
		if msg.Type != tea.KeyRunes && msg.Type != tea.KeySpace || msg.Alt {
			return l, false
		}
		return l.insert(msg.Runes), true
	}
	return l, true
}

func (l line) erase(from, to int) line {
	return line{runes: append(append([]rune(nil), l.runes[:from]...), l.runes[to:]...), pos: from}
}

// insert puts typed or pasted characters in; line ends and the like become
// blanks.
func (l line) insert(typed []rune) line {
	out := append([]rune(nil), l.runes[:l.pos]...)
	for _, r := range typed {
		if len(out)+len(l.runes)-l.pos >= lineMost {
			break
		}
		if r < 0x20 || r == 0x7f {
			r = ' '
		}
		out = append(out, r)
	}
	pos := len(out)
	return line{runes: append(out, l.runes[l.pos:]...), pos: pos}
}
