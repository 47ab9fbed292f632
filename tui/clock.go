package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// Rates, ages and times of the last five minutes change while nothing happens. The
// session says nothing then, so that the screen needs a clock of its own: each message
// brings the time, and a tick comes where something that is on the screen gets old.

// tickMsg says that what is on the screen has got older. Only the newest tick counts.
type tickMsg struct{ n uint64 }

const (
	tickLeast = time.Second
	tickMost  = 10 * time.Second
	// bySecond is up to when ages are shown by the second.
	bySecond = 2 * time.Minute
)

// ticks are the one that is under way, if any.
type ticks struct {
	n   uint64
	due time.Time // zero: none
}

// at sets the model's clock. It never goes back: messages come from several sides.
func (m model) at(now time.Time) model {
	if now.After(m.now) {
		m.now = now
		m.rate = m.rate.at(now)
	}
	return m
}

// ages is after how long something on the screen is no longer so, though nothing
// happens; 0 is never. The less time figures are of, the sooner they change.
func (m *model) ages() time.Duration {
	if !m.known {
		return 0
	}
	least := time.Duration(0)
	soon := func(d time.Duration) {
		if d = max(min(d, tickMost), tickLeast); least == 0 || d < least {
			least = d
		}
	}
	if m.figured() && m.graph.n > 0 && !m.list.paused {
		if long := m.graph.span().long; long < bySecond {
			soon(tickLeast)
		} else {
			soon(long / sparkSteps)
		}
	}
	if m.screen == screenServices { // the session's age, and that of its loss
		since := m.status.Started
		if m.gone != nil {
			since = m.goneAt
		}
		if m.now.Sub(since) < bySecond {
			soon(tickLeast)
		} else {
			soon(tickMost)
		}
	}
	return least
}

// figured says that figures of the last minutes are on the screen: all of it, below the
// list, or in the header.
func (m *model) figured() bool {
	return m.screen == screenGraph || m.screen == screenServices || m.screen == screenEvents || m.layout().services > 0
}

// tick is the next tick as a command: nil if none is needed, or one comes early enough.
func (m model) tick() (model, tea.Cmd) {
	d := m.ages()
	if m.wait == nil || d == 0 {
		return m, nil
	}
	due := m.now.Add(d)
	if !m.ticks.due.IsZero() && !m.ticks.due.After(due) {
		return m, nil
	}
	m.ticks = ticks{m.ticks.n + 1, due}
	return m, m.wait(d, tickMsg{m.ticks.n})
}

// ticked takes a tick; the time came with it, as with each message.
func (m model) ticked(msg tickMsg) model {
	if msg.n == m.ticks.n {
		m.ticks.due = time.Time{}
	}
	return m
}

// after makes commands that wait before they give their message.
func after(work func(func(context.Context) tea.Msg) tea.Cmd) func(time.Duration, tea.Msg) tea.Cmd {
	return func(d time.Duration, msg tea.Msg) tea.Cmd {
		return work(func(ctx context.Context) tea.Msg {
			if !sleep(ctx, d, nil) {
				return nil
			}
			return msg
		})
	}
}
