package tui

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/control"
)

// leftRunning says how to have what the question of q cannot do where a session belongs
// to its terminal.
const leftRunning = "  (lane up -d stays running)"

// detachMsg says that the session can go on without its terminal, or why it cannot.
type detachMsg struct{ err error }

// quitKeys are the keys that answer the question of q; yes is the word for y.
func (m *model) quitKeys(yes string) string {
	if m.detach != nil && m.status.State == control.SessionUp {
		return "y " + yes + " / d detach / n stay"
	}
	return "y " + yes + " / n stay"
}

// leaveRunning has the session go on without this terminal, or says why it does not.
// One that is not up yet may still fail, and nobody would see it.
func (m model) leaveRunning() model {
	switch {
	case m.detach == nil:
		m.notice = "still exposed. One that is to go on without this terminal: lane up -d; lane status shows it, lane down ends it"
	case m.status.State != control.SessionUp:
		m.notice = "not detached: the session is not up yet; d detaches it when it is"
	default:
		f := m.detach
		m.notice = "detaching" + underWay
		m.async(func(ctx context.Context) tea.Msg { return detachMsg{f(ctx)} })
	}
	return m
}

// detached leaves a session that can go on by itself.
func (m model) detached(msg detachMsg) model {
	if msg.err != nil {
		m.notice = m.failure("not detached, all goes on here", msg.err).notice
		return m
	}
	if m.leaving == leaveNot { // whoever has pressed another key meanwhile means that one
		m.leaving = leaveDetach
	}
	return m
}
