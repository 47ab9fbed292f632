package tui

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/control"
	"lane/pkg/traffic"
)

// screen is what fills the terminal.
type screen uint8

const (
	screenList screen = iota
	screenDetail
	screenServices
	screenHelp
	screenTry
	screenFallbacks
	screenGraph
	screenEvents
	screenAnswers
	screenDoctor
)

// place is whose keys work on the screen.
func (s screen) place() place {
	switch s {
	case screenDetail:
		return inDetail
	case screenServices:
		return inServices
	case screenHelp:
		return inHelp
	case screenTry:
		return inTry
	case screenFallbacks:
		return inFallbacks
	case screenGraph:
		return inGraph
	case screenEvents:
		return inEvents
	case screenAnswers:
		return inAnswers
	case screenDoctor:
		return inDoctor
	}
	return inList
}

// opener is the key that has opened the screen.
func (s screen) opener() action {
	switch s {
	case screenServices:
		return actServices
	case screenHelp:
		return actHelp
	case screenFallbacks:
		return actFallbacks
	case screenGraph:
		return actGraph
	case screenEvents:
		return actEvents
	case screenDoctor:
		return actDoctor
	case screenAnswers:
		return actAnswers
	}
	return actNone
}

// leave is how the user left.
type leave uint8

const (
	leaveNot leave = iota
	leaveQuit
	leaveStop      // the owner stops exposing
	leaveInterrupt // ctrl+c
	leaveDetach    // the session goes on without its terminal
)

// model is the root: it routes keys and messages to the panes.
type model struct {
	owner    bool                        // q asks whether to stop exposing
	quitting string                      // what q does, for the help
	detach   func(context.Context) error // nil: the session belongs to its terminal
	fixed    look
	binds    []binding
	hint     string
	try      []string

	width, height int
	clock         func() time.Time
	now           time.Time
	ticks         ticks

	// The session.
	status  control.Status
	known   bool      // status is one that the session gave
	gone    error     // the session does not answer
	goneAt  time.Time // since when
	rate    rate
	lost    uint64 // rows that came too fast, in all
	lostAt  time.Time
	lostNow uint64 // those of the last time

	// The panes.
	screen screen
	under  screen // the one that help or services were opened from
	list   list
	filter filterLine
	detail detail
	part   tab // of the detail that is open
	fell   fallbacks
	graph  graph
	// pausedAt is when the list was paused.
	pausedAt time.Time
	drawn    uint64 // the row up to which the graph was made
	answers  answers
	// sending is the request that a key sends again, and late are its answers if they
	// came when the user had gone on.
	sending *sending
	late    *answers
	keys    uint64 // pressed so far
	// diagnosis is what D has found.
	diagnosis diagnosis
	// answered counts answers, and drawing is what is kept of a text.
	answered uint64
	drawing  drawing
	reading  scroll // of a text that lies over the list

	deeds   Deeds // nil: nobody does any
	version string
	work    func(func(context.Context) tea.Msg) tea.Cmd
	wait    func(time.Duration, tea.Msg) tea.Cmd // nil: time stands still
	do      tea.Cmd                              // what the last message asks for
	raw     func()                               // has the terminal give each key at once
	hurry   func()                               // has the feed ask the session at once

	notice  string // what the last key did, or did not do; until the next one, or for a while
	notices uint64 // how many there have been
	asking  bool   // "stop exposing?"
	confirm *confirm
	leaving leave
}

// look is what does not change while the program runs.
type look struct {
	palette palette
	text    text
	loc     *time.Location
	color   bool
	// commands says that other commands of ours reach the session: they are
	// worth proposing.
	commands bool
}

func newModel(o Options) model {
	now := o.Now()
	fixed := look{palette: newPalette(o.Color), text: text{utf8: o.UTF8}, loc: now.Location(), color: o.Color, commands: !o.Demo}
	m := model{
		owner: !o.Attached && !o.Demo,
		fixed: fixed,
		binds: bindings(),
		hint:  o.Hint,
		try:   o.Try,
		clock: o.Now,
		now:   now,
		list:  newList(fixed.text),
		rate:  rate{since: now},

		deeds: o.Deeds, version: o.Version,
	}
	if o.Deeds == nil {
		m.binds = slices.DeleteFunc(m.binds, func(b binding) bool { return b.deed })
	}
	if o.Demo { // it looks at the registry of the settings, which is not the demo's
		m.binds = slices.DeleteFunc(m.binds, func(b binding) bool { return b.act == actDoctor })
	}
	if len(o.Try) > 0 {
		m.binds = append(m.binds, tryKey())
	}
	switch {
	case o.Demo:
		m.quitting = "end the demo, all of it"
	case o.Attached:
		m.quitting = "quit; the session stays"
	case o.Detach != nil:
		m.detach, m.quitting = o.Detach, "stop, or detach (asks)"
	default:
		m.quitting = "stop exposing (asks first)"
	}
	return m
}

// Init asks for nothing: the feed brings all.
func (m model) Init() tea.Cmd { return nil }

// Update is bubbletea's way in.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.do = nil
	before := m.notice
	m = m.at(m.clock()).update(msg)
	if m.leaving != leaveNot {
		return m, tea.Quit
	}
	m, over := m.noticed(before, msg)
	m, tick := m.tick()
	return m, tea.Batch(m.do, over, tick)
}

func (m model) update(msg tea.Msg) model {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		m = m.press(msg)
	case batchMsg:
		m = m.batch(msg)
	case statusMsg:
		m = m.session(msg)
	case restartMsg:
		if m.confirm != nil { // the row that it names is another one from now on
			m = m.asked()
			m.notice = "not done: the session has begun anew"
		}
		m.list, m.rate, m.lost, m.lostNow, m.fell = m.list.clear(), rate{since: m.now}, 0, 0, fallbacks{}
		m.late = nil // of rows that are no more
	case wholeMsg:
		m = m.wholeCame(msg)
	case messagesMsg:
		if m.detail.whole != nil && m.detail.whole.Seq == msg.seq {
			m.detail.messages = &msg.of
		}
	case answersMsg:
		m = m.answersCame(msg)
	case diagnosisMsg:
		m = m.diagnosed(msg)
	case doneMsg:
		m.notice = msg.notice
	case detachMsg:
		m = m.detached(msg)
	case continuedMsg:
		m.do = m.takeAnew()
	case suspendedMsg:
		if !msg.stopped {
			m.notice = "not suspended: no shell is there to continue it"
		}
	case tickMsg:
		m = m.ticked(msg)
	case noticeOverMsg:
		m = m.noticeOver(msg)
	}
	switch {
	case m.screen == screenGraph, m.screen == screenServices, m.screen == screenEvents:
		m = m.drawGraph()
	case m.figured() && (m.drawn == 0 || m.now.Sub(m.graph.to) >= stripEvery):
		m = m.drawGraph() // for the services below the list, and the header
	}
	m = m.keepDrawing()
	// The room for the list depends on the size and on what stands above it.
	m.list = m.list.resize(m.layout().rows)
	return m
}

func (m model) batch(msg batchMsg) model {
	m = m.at(msg.at)
	m.list = m.list.add(msg.rows)
	m.fell = m.fell.add(msg.left, msg.rows)
	missing := (&traffic.Batch{Lost: msg.lost, Left: msg.left, More: msg.more}).Missing()
	m.rate = m.rate.add(msg.at, recent(msg.rows, msg.at)+missing)
	if missing > 0 {
		m.lost += missing
		m.lostNow, m.lostAt = missing, msg.at
	}
	return m
}

// wholeCame takes the bodies of the exchange that is open, if it still is.
func (m model) wholeCame(msg wholeMsg) model {
	if m.screen == screenList || m.detail.of.Seq != msg.seq {
		return m
	}
	if msg.err == nil {
		msg.err = sameRow(&m.detail.of, &msg.e)
	}
	if msg.err != nil {
		m.detail.failed = m.fixed.text.clean(msg.err.Error(), 300)
		return m
	}
	m.detail.whole = &msg.e
	return m.describe()
}

// stripEvery is how often the figures below the list are made anew, at most.
const stripEvery = time.Second

// drawGraph makes the graph anew if there are new rows or time has passed; while the
// list is paused it stays as well, with the time of its rows.
func (m model) drawGraph() model {
	at := m.now
	if m.list.paused {
		at = m.pausedAt
	}
	if m.drawn == m.list.next && m.graph.to.Equal(at) {
		return m
	}
	m.graph, m.drawn = newGraph(m.list.rows, at, endsOf(&m.status)), m.list.next
	return m
}

func (m model) session(msg statusMsg) model {
	m = m.at(msg.at)
	switch {
	case msg.err == nil:
		if m.gone != nil {
			m.notice = "" // it may say what is no longer so
		}
		m.status, m.known, m.gone = msg.status, true, nil
	case m.gone == nil:
		m.gone, m.goneAt = msg.err, msg.at
	default:
		m.gone = msg.err
	}
	if m.ended() && msg.status.Schema != "" { // the last word, or what was known before it
		m.status, m.known = msg.status, true
		m.status.Services = slices.Clone(m.status.Services)
		for i := range m.status.Services {
			if v := &m.status.Services[i]; v.State != control.StateClaimLost {
				v.State, v.Note = control.StateEnded, ""
			}
		}
	}
	return m
}

// endWords say that the session has ended, and how, as far as it has said so.
func (m *model) endWords() string {
	if h := m.status.History; m.status.State == control.SessionEnded && len(h) > 0 {
		how := m.fixed.text.clean(h[len(h)-1].Text, 400)
		if strings.HasPrefix(how, "ended") {
			return "The session has " + how
		}
		return "The session has ended: " + how
	}
	return "The session has ended: it has not said how: its process was killed, perhaps"
}

// ended says that the session is over and will not come back.
func (m *model) ended() bool { return errors.Is(m.gone, io.EOF) }

// scroll is a position in a text that may be longer than the screen.
type scroll struct{ top int }

// move scrolls the text of the open screen.
func (m model) move(s scroll, act action) scroll {
	text, _ := m.text()
	page := m.layout().page
	most := max(len(text)-page, 0)
	switch act {
	case actUp:
		s.top--
	case actDown:
		s.top++
	case actPageUp:
		s.top -= page
	case actPageDown:
		s.top += page
	case actTop:
		s.top = 0
	case actBottom:
		s.top = most
	}
	s.top = max(min(s.top, most), 0)
	return s
}
