package tui

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/traffic"
)

// sending is a request that a key sends again. There is one at a time: its answers
// open by themselves if nobody has pressed a key since, and wait otherwise. A screen
// that opened under the next key would have that key do another thing.
type sending struct {
	n      uint64 // the keys that were pressed when it began, which no other has
	what   string // for the notice
	cancel context.CancelFunc
}

// send sends what f sends of the whole exchange of a row.
func (m model) send(row *traffic.Exchange, what string, f func(context.Context, *traffic.Exchange) (answers, error)) model {
	d, of, n := m.deeds, *row, m.keys
	ended, cancel := context.WithCancel(context.Background())
	m.sending = &sending{n, what, cancel}
	m.late = nil // these are newer
	m.notice = m.sending.notice()
	m.async(func(ctx context.Context) tea.Msg {
		ctx, drop := context.WithCancel(ctx)
		defer drop()
		defer context.AfterFunc(ended, drop)()
		whole, err := repeatable(ctx, d, &of)
		if err != nil {
			return answersMsg{n: n, err: err}
		}
		both, err := f(ctx, &whole)
		return answersMsg{n, both, err}
	})
	return m
}

func (s *sending) notice() string { return s.what + ", esc cancels" + underWay }

// sendingSaid says that the words of a sending stand on the screen: esc is about those.
func (m *model) sendingSaid() bool { return m.sending != nil && m.notice == m.sending.notice() }

// cancelSending gives a sending up. Nothing can call back what is on its way.
func (m model) cancelSending() model {
	m.sending.cancel()
	m.sending = nil
	m.notice = "cancelled; the request may have arrived all the same"
	return m
}

// answersCame takes the answers of a sending that nobody has cancelled.
func (m model) answersCame(msg answersMsg) model {
	if m.sending == nil || m.sending.n != msg.n {
		return m
	}
	m.sending.cancel()
	m.sending = nil
	if msg.err != nil {
		m.notice = m.failure("not sent", msg.err).notice
		return m
	}
	m.late = &msg.answers
	if m.keys == msg.n {
		return m.showAnswers()
	}
	m.notice = "two answers to " + rowWords(&msg.answers.of, m.fixed.text) + ": a shows them"
	return m
}

// showAnswers opens the last two answers, or closes them if there are none since.
func (m model) showAnswers() model {
	switch {
	case m.late != nil:
		m.answers, m.late, m.notice, m.answered = *m.late, nil, "", m.answered+1
		if m.screen != screenAnswers {
			return m.open(screenAnswers)
		}
		m.reading = scroll{}
	case m.answered == 0:
		m.notice = "nothing was sent again yet: r and D do that"
	default:
		return m.open(screenAnswers)
	}
	return m
}
