package tui

import (
	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/traffic"
)

// filterLine is the pane in which a filter is typed. The list follows what is
// typed while it is a filter; what is not one says why and changes nothing.
type filterLine struct {
	open    bool
	line    line
	before  traffic.Filter // esc goes back to it
	err     error
	history []string
	past    int // where in history; len is the line being typed
}

func (f filterLine) start(now traffic.Filter) filterLine {
	f.open, f.before, f.err = true, now, nil
	f.line = newLine(now.String())
	f.past = len(f.history)
	return f
}

// press takes a key. The filter is the one to show from now on; ok is false if
// it stays as it is.
func (f filterLine) press(msg tea.KeyMsg) (_ filterLine, show traffic.Filter, ok bool) {
	switch msg.String() {
	case "esc":
		f.open, f.err = false, nil
		return f, f.before, true
	case "enter":
		if f.err != nil {
			return f, traffic.Filter{}, false // stays open, with its error
		}
		f.open = false
		if s := f.line.String(); s != "" && (len(f.history) == 0 || f.history[len(f.history)-1] != s) {
			f.history = append(f.history[:len(f.history):len(f.history)], s)
		}
		return f, traffic.Filter{}, false
	case "up":
		return f.recall(-1)
	case "down":
		return f.recall(+1)
	}
	typed, edited := f.line.press(msg)
	if !edited {
		return f, traffic.Filter{}, false
	}
	f.line = typed
	return f.parse()
}

func (f filterLine) recall(by int) (filterLine, traffic.Filter, bool) {
	to := f.past + by
	if to < 0 || to > len(f.history) {
		return f, traffic.Filter{}, false
	}
	f.past = to
	s := ""
	if to < len(f.history) {
		s = f.history[to]
	}
	f.line = newLine(s)
	return f.parse()
}

func (f filterLine) parse() (filterLine, traffic.Filter, bool) {
	show, err := traffic.ParseFilter(f.line.String())
	f.err = err
	return f, show, err == nil
}
