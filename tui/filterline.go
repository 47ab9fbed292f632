package tui

import (
	"errors"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/traffic"
)

// filterLine is the pane in which a filter is typed. The list follows what is
// typed; a part that is wrong, or not yet right, says why and is left out.
type filterLine struct {
	open    bool
	line    line
	before  traffic.Filter // esc goes back to it
	anchor  uint64         // the row that was selected: the cursor stays near it
	err     error
	history []string
	past    int // where in history; len is the line being typed
}

func (f filterLine) start(now traffic.Filter, anchor uint64) filterLine {
	f.open, f.before, f.anchor, f.err = true, now, anchor, nil
	f.line = newLine(now.String())
	f.past = len(f.history)
	if f.past > 0 && f.history[f.past-1] == now.String() {
		f.past-- // up goes to another one
	}
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
	s := f.line.String()
	show, err := traffic.ParseFilter(s)
	f.err = err
	var wrong *traffic.FilterError
	if errors.As(err, &wrong) {
		show, err = traffic.ParseFilter(s[:wrong.At])
	}
	return f, show, err == nil
}
