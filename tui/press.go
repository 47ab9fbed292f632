package tui

import (
	"lane/pkg/traffic"

	tea "github.com/charmbracelet/bubbletea"
)

func (m model) press(msg tea.KeyMsg) model {
	switch msg.Type { // whatever is open
	case tea.KeyCtrlC:
		m.leaving = leaveInterrupt
		return m
	case tea.KeyCtrlL:
		m.do = tea.ClearScreen
		return m
	case tea.KeyCtrlZ:
		return m.suspend()
	}
	m.keys++
	switch {
	case msg.Type == tea.KeyRunes && len(msg.Runes) > 1 && !msg.Paste:
		// What is typed fast arrives as one message.
		for _, r := range msg.Runes {
			if m.leaving == leaveNot {
				m = m.press(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}, Alt: msg.Alt})
			}
		}
		return m
	case msg.Paste && !m.filter.open:
		return m // a text that was pasted is not meant as keys
	case m.asking:
		return m.answer(msg)
	case m.confirm != nil:
		return m.confirmed(msg)
	case m.filter.open:
		var show traffic.Filter
		var ok bool
		if m.filter, show, ok = m.filter.press(msg); ok {
			m.list = m.list.choose(show, m.filter.anchor)
		}
		return m
	}
	if msg.Type == tea.KeyEsc && m.sendingSaid() {
		return m.cancelSending()
	}
	m.notice = ""
	act := lookup(m.binds, m.screen.place(), msg)
	switch act {
	case actQuit:
		return m.quit()
	case actHelp:
		return m.open(screenHelp)
	case actServices:
		return m.open(screenServices)
	case actTry:
		return m.open(screenTry)
	case actFallbacks:
		return m.open(screenFallbacks)
	case actGraph:
		return m.open(screenGraph)
	case actEvents:
		return m.open(screenEvents)
	case actDoctor:
		return m.examine()
	case actAnswers:
		return m.showAnswers()
	case actReconnect:
		if m.screen == screenDoctor && m.gone == nil {
			return m.diagnose()
		}
		return m.reconnect()
	case actCopy, actCopySecrets, actReplay, actAgainst, actMark:
		return m.pressRow(act)
	}
	switch m.screen {
	case screenList:
	case screenDetail:
		return m.pressDetail(act, msg)
	default:
		if act == actBack {
			m.screen = m.under
			return m
		}
		m.reading = m.move(m.reading, act)
		return m
	}
	return m.pressList(act, msg)
}

// chosen is the exchange that a key of a row is about: the open one, or the selected
// one.
func (m *model) chosen() *traffic.Exchange {
	switch m.screen {
	case screenDetail:
		return &m.detail.of
	case screenAnswers:
		return &m.answers.of
	}
	return m.list.selected()
}

// pressRow does what a key asks for with one exchange.
func (m model) pressRow(act action) model {
	e := m.chosen()
	if e == nil {
		m.notice = "no row is selected"
		return m
	}
	if m.gone != nil && act != actMark && act != actCopy {
		m.notice = "the session does not answer"
		if m.ended() {
			m.notice = "the session has ended: nobody could send it"
		}
		return m
	}
	if act == actReplay || act == actAgainst {
		if l := m.late; l != nil && l.of.Seq == e.Seq && l.of.Start.Equal(e.Start) && l.sides == (act == actAgainst) {
			return m.showAnswers() // what was asked for is here
		}
		if m.sending != nil {
			m.notice = "not sent: " + m.sending.what + " is still under way; esc in the list cancels it"
			return m
		}
	}
	row := *e
	words := rowWords(e, m.fixed.text)
	switch act {
	case actMark:
		m.list = m.list.mark(row.Seq)
	case actCopy:
		return m.copyCurl(row, false)
	case actCopySecrets:
		return m.ask(question{"Copy ", words, " with its secrets in clear?", "y copy / n do not"},
			func(m model) model { return m.copyCurl(row, true) })
	case actReplay:
		if safe(row.Method) {
			return m.replay(row)
		}
		return m.ask(question{"May change something: send ", words, " again?", "y send / n do not"},
			func(m model) model { return m.replay(row) })
	case actAgainst:
		if safe(row.Method) {
			return m.against(row)
		}
		return m.ask(question{"Send ", words, " TWICE, to lane and baseline?", "y send / n do not"},
			func(m model) model { return m.against(row) })
	}
	return m
}

// confirmed takes the answer to a question.
func (m model) confirmed(msg tea.KeyMsg) model {
	switch msg.String() {
	case "y", "Y":
		yes := m.confirm.yes
		return yes(m.asked())
	case "n", "N", "esc", "q":
		return m.asked()
	}
	return m
}

// open shows a text over the list or the detail; its key closes it again.
func (m model) open(s screen) model {
	if m.screen == s {
		m.screen = m.under
		return m
	}
	if m.screen == screenList || m.screen == screenDetail {
		m.under = m.screen
	}
	m.screen, m.reading = s, scroll{}
	m.drawn = 0
	return m
}

// problem goes to the next or previous error or fallback, or says that there is
// none.
func (m model) problem(by int) (model, bool) {
	l, found := m.list.problem(by)
	if found {
		m.list = l
		return m, true
	}
	way, other := "later", "N"
	if by < 0 {
		way, other = "earlier", "n"
	}
	m.notice = "no " + way + " error or fallback"
	if !m.list.filter.Empty() {
		m.notice += " that the filter shows"
	}
	if _, behind := m.list.problem(-by); behind {
		m.notice += "; " + other + " goes the other way"
	}
	return m, false
}

func (m model) pressList(act action, msg tea.KeyMsg) model {
	switch act {
	case actUp:
		m.list = m.list.move(-1)
	case actDown:
		m.list = m.list.move(+1)
	case actPageUp:
		m.list = m.list.move(-max(m.list.height-1, 1))
	case actPageDown:
		m.list = m.list.move(+max(m.list.height-1, 1))
	case actTop:
		m.list = m.list.move(-ringSize)
	case actBottom:
		m.list = m.list.newest()
	case actNextProblem:
		m, _ = m.problem(+1)
	case actPrevProblem:
		m, _ = m.problem(-1)
	case actFollow:
		if m.list.follow {
			m.list = m.list.stay()
		} else if m.list.order != byTime {
			m.list = m.list.sorted(byTime)
		} else {
			m.list = m.list.newest()
		}
	case actPause:
		m = m.togglePause()
	case actFilter:
		m.filter = m.filter.start(m.list.filter, m.list.origin())
	case actBack:
		if !m.list.filter.Empty() {
			m.list = m.list.choose(traffic.Filter{}, m.list.origin())
		} else if m.sending != nil {
			return m.cancelSending()
		}
	case actNextTab, actPrevTab:
		if m.layout().side > 0 {
			m.part = m.part.next(act)
		}
	case actTab:
		m.part = tabOf(msg)
		if m.layout().side == 0 {
			m = m.openDetail()
		}
	case actOpen:
		m = m.openDetail()
	case actProxy:
		return m.copyProxy()
	case actSort:
		m.list = m.list.sorted((m.list.order + 1) % orders)
		m.notice = "order: " + m.list.order.String()
	case actExport:
		if len(m.list.shown) == 0 {
			m.notice = "there is no row to export"
			return m
		}
		return m.export()
	case actClear:
		return m.ask(question{before: "Clear the list? The session keeps its counts.", keys: "y clear / n do not"},
			func(m model) model { m.list = m.list.forget(); return m })
	}
	return m
}

// tabOf is the part that a number names.
func tabOf(msg tea.KeyMsg) tab {
	return tab(min(max(int(msg.String()[0])-'1', 0), int(tabs)-1))
}

// openDetail opens the selected exchange.
func (m model) openDetail() model {
	e := m.list.selected()
	if e == nil {
		return m
	}
	m.detail = detail{of: *e, follow: m.list.follow}
	m.list.follow = false
	m.screen = screenDetail
	return m.fetch()
}

func (m model) pressDetail(act action, msg tea.KeyMsg) model {
	switch act {
	case actNextTab, actPrevTab, actTab:
		switch act {
		case actNextTab, actPrevTab:
			m.part = m.part.next(act)
		default:
			m.part = tabOf(msg)
		}
		m.detail.scroll = scroll{}
	case actBack:
		m.screen = screenList
		m.list.follow = m.detail.follow
	case actNextProblem, actPrevProblem:
		by := +1
		if act == actPrevProblem {
			by = -1
		}
		var found bool
		if m, found = m.problem(by); found {
			m.detail = detail{of: *m.list.selected()}
			m = m.fetch()
		}
	case actPause:
		m = m.togglePause()
	default:
		m.detail.scroll = m.move(m.detail.scroll, act)
	}
	return m
}

func (m model) togglePause() model {
	if m.list.paused {
		m.list = m.list.resume()
	} else {
		m.list, m.pausedAt = m.list.pause(), m.now
	}
	return m
}

// quit leaves at once unless that would end what the user exposes.
func (m model) quit() model {
	if !m.owner || m.gone != nil {
		m.leaving = leaveQuit
		return m
	}
	m.asking = true
	return m
}

func (m model) answer(msg tea.KeyMsg) model {
	switch msg.String() {
	case "y", "Y":
		m.leaving = leaveStop
	case "d": // D is another key
		m.asking = false
		return m.leaveRunning()
	case "n", "N", "esc", "q":
		m.asking = false
	}
	return m
}
