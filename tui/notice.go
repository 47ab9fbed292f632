package tui

import (
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// A notice says what the last key did, or did not do. The next key takes it away, and
// so does time: it covers what the status line says of the list.

// underWay ends a notice of what still goes on: that one stays until it is done.
const underWay = " ..."

// noticeOverMsg takes a notice away, if it is still that one.
type noticeOverMsg struct{ number uint64 }

// noticeOver takes a notice away after its time, or after as long again if it could not
// be read: a filter that is typed, or a question, has its place.
func (m model) noticeOver(msg noticeOverMsg) model {
	_, waits := m.waiting()
	switch {
	case msg.number != m.notices:
	case m.filter.open || waits && m.layout().tiny:
		m.do = m.wait(noticeLasts(m.notice), msg)
	default:
		m.notice = ""
	}
	return m
}

// noticeLasts is how long a notice stays: as long as it takes to look there and to read
// it.
func noticeLasts(notice string) time.Duration {
	return min(4*time.Second+time.Duration(wide(notice))*100*time.Millisecond, 20*time.Second)
}

// noticed counts the notice that a message has brought, and has it go after its time.
func (m model) noticed(before string, msg tea.Msg) (model, tea.Cmd) {
	_, key := msg.(tea.KeyMsg) // the same words again are another notice
	if m.notice == "" || m.notice == before && !key {
		return m, nil
	}
	m.notices++
	if m.wait == nil || strings.HasSuffix(m.notice, underWay) {
		return m, nil
	}
	return m, m.wait(noticeLasts(m.notice), noticeOverMsg{m.notices})
}

// noticeLines are the notice in at most two lines of the screen: the second one takes
// the place of the keys, unless a question or a filter waits for them.
func (m *model) noticeLines() []string {
	if m.notice == "" {
		return nil
	}
	most := 2
	if _, waits := m.waiting(); waits || m.filter.open {
		most = 1
	}
	return wrap(m.notice, m.width-2, most)
}
