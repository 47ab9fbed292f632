package tui

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/control"
)

// down says that something is tried again by itself, which a key can hurry.
func (m *model) down() bool {
	if m.gone != nil {
		return !m.ended()
	}
	if r := m.status.Relay; r != nil && r.State != control.RelayOK {
		return m.known
	}
	return m.known && m.status.Registry.State != registryFresh && m.status.State != control.SessionStarting
}

// lacks says that there is something that a session which answers could try again: its
// tunnel, its registry, its registrations and claims.
func (m *model) lacks() bool {
	for _, v := range m.status.Services {
		switch v.State {
		case control.StateUp, control.StateLocalClosed, control.StateDraining, control.StateEnded:
		default:
			return true
		}
	}
	return m.down() || m.status.State == control.SessionStarting || m.status.State == control.SessionWaking
}

// reconnect tries again at once what would be tried later: the session's socket, or,
// if it answers, what the session itself has lost.
func (m model) reconnect() model {
	switch {
	case m.ended():
		m.notice = "the session has ended: lane up starts another one"
	case m.gone != nil || !m.known:
		if m.hurry != nil {
			m.hurry()
		}
		m.notice = "asking the session again"
	case !m.lacks():
		m.notice = "nothing is lost: there is nothing to try again"
	case m.deeds == nil:
		m.notice = "the session tries by itself"
	default:
		d := m.deeds
		m.notice = "trying again" + underWay
		m.async(func(ctx context.Context) tea.Msg {
			if err := d.Reconnect(ctx); err != nil {
				return m.failure("not tried again", err)
			}
			return doneMsg{"the session tries again now"}
		})
	}
	return m
}
