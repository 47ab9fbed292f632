package tui

import (
	"io"

	tea "github.com/charmbracelet/bubbletea"
	"golang.org/x/term"
)

// The library draws what has changed. What another job has written into the terminal,
// or what a shell has set in it while this program was stopped, it does not see.

// continuedMsg says that the process goes on after it was stopped.
type continuedMsg struct{}

// takeAnew takes the terminal as it was before a shell had it. The library's own way
// waits for its reader of keys to end, which after a stop may still stand in a read.
func (m model) takeAnew() tea.Cmd {
	if m.raw != nil {
		m.raw() // here: once the program has ended, the terminal is somebody else's
	}
	return tea.Sequence(tea.ExitAltScreen, tea.EnterAltScreen, tea.HideCursor, tea.EnableBracketedPaste)
}

// takeKeys sets a terminal to give each key at once; what is none stays.
func takeKeys(in io.Reader) {
	if f, ok := in.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) {
		_, _ = term.MakeRaw(int(f.Fd())) // how it was before, the library knows
	}
}

// suspendedMsg says that a suspension is over; stopped, that there was one.
type suspendedMsg struct{ stopped bool }

// away is what runs while the terminal is given back: the library takes it anew
// afterwards, in raw mode and with the alternate screen, and draws all of it.
type away func()

var _ tea.ExecCommand = away(nil)

func (f away) Run() error        { f(); return nil }
func (away) SetStdin(io.Reader)  {}
func (away) SetStdout(io.Writer) {}
func (away) SetStderr(io.Writer) {}

// suspend stops the viewer, as its users know it from other programs. The owner of a
// session is more than a viewer: the lane's callers would wait for it.
func (m model) suspend() model {
	if m.owner {
		m.notice = "not suspended: the lane's callers would wait"
		if m.detach != nil {
			m.notice += "; q d detaches"
		}
		return m
	}
	if stop == nil {
		m.notice = "not suspended: this system has no such thing"
		return m
	}
	m.notice = ""
	stopped := false
	m.do = tea.Exec(away(func() { stopped = stop() }), func(error) tea.Msg { return suspendedMsg{stopped} })
	return m
}
