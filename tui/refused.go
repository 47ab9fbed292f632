package tui

import (
	"context"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"lane/pkg/lane"
)

// Refusal is a start that somebody else's claim stands against.
type Refusal struct {
	Lane lane.Name
	Why  string // who holds what
	// Since and Active are when it was claimed and when it last served a request, by
	// its holder's clock; empty: not known.
	Since, Active string
	// Claim is its key in the registry, Code what a relay has answered, and Relay the name
	// of that one, or of the one that holds the claim for its owner; empty: there is none.
	Claim, Code, Relay string
	// Request is the id by which the relay's audit log has it; empty: there is none.
	Request string
	// Final says that it was to be taken over, and could not be.
	Final bool
	// Here says that a session of this machine holds it: one machine serves it once.
	Here bool
}

// source is what to tell who looks after the registry or the relay, in lines of w columns
// if each of its parts fits into one.
func (r *Refusal) source(t text, w int) []string {
	var lines []string
	for _, p := range [][2]string{{"code ", r.Code}, {"relay ", r.Relay}, {"request ", r.Request}, {"claim ", r.Claim}} {
		if p[1] == "" {
			continue
		}
		s := p[0] + t.clean(p[1], 300)
		if n := len(lines) - 1; n >= 0 && wide(lines[n])+3+wide(s) <= w {
			lines[n] += "   " + s
		} else {
			lines = append(lines, s)
		}
	}
	return lines
}

// Choice is what the user does about a refusal.
type Choice struct {
	TakeOver bool
	Join     bool      // stand beside the holder
	Lane     lane.Name // another one, empty: not chosen
}

// Refused asks what to do about a refusal: take over, stand beside, another lane, or,
// with a zero Choice, nothing. Its errors are those of Run.
func Refused(ctx context.Context, r Refusal, o Options) (Choice, error) {
	m := newRefused(r, o)
	o.FPS = defaultFPS
	_, run := program(ctx, m, o)
	end, err := run()
	switch {
	case ctx.Err() != nil:
		return Choice{}, ctx.Err()
	case err != nil:
		return Choice{}, err
	}
	got := end.(refused)
	if got.interrupted {
		return Choice{}, ErrInterrupted
	}
	return got.choice, nil
}

// heldTime is a time of another machine's clock, without what nobody reads.
func heldTime(s string) string {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return s
	}
	return at.Format("2 Jan 15:04:05")
}

// refused is the screen of a refusal.
type refused struct {
	of            Refusal
	fixed         look
	width, height int

	naming bool // another lane's name is being typed
	line   line
	fresh  bool // it holds what was proposed: the first letter takes its place
	wrong  string

	done, interrupted bool
	choice            Choice
}

func newRefused(r Refusal, o Options) refused {
	return refused{of: r, fixed: look{palette: newPalette(o.Color), text: text{utf8: o.UTF8}}, line: newLine(string(suggest(r.Lane)))}
}

// suggest is a lane's name with a number behind it: the next one, if it has one.
func suggest(l lane.Name) lane.Name {
	base, n := string(l), 2
	if i := len(base) - 1; i > 1 && base[i-1] == '-' && base[i] >= '1' && base[i] < '9' {
		base, n = base[:i-1], int(base[i]-'0')+1
	}
	out := base + "-" + string(rune('0'+n))
	if name, err := lane.ParseName(out); err == nil {
		return name
	}
	return l
}

func (m refused) Init() tea.Cmd { return nil }

func (m refused) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		m = m.press(msg)
	}
	if m.done {
		return m, tea.Quit
	}
	return m, nil
}

func (m refused) press(msg tea.KeyMsg) refused {
	switch {
	case msg.Type == tea.KeyCtrlC:
		m.done, m.interrupted = true, true
	case m.naming:
		return m.name(msg)
	case msg.Paste:
	default:
		switch msg.String() {
		case "t":
			m.choice.TakeOver = !m.of.Final
			m.done = m.choice.TakeOver
		case "j":
			m.choice.Join = !m.of.Here
			m.done = m.choice.Join
		case "n":
			m.naming, m.fresh, m.wrong = true, true, ""
		case "q", "esc":
			m.done = true
		}
	}
	return m
}

func (m refused) name(msg tea.KeyMsg) refused {
	switch msg.String() {
	case "esc":
		m.naming, m.wrong = false, ""
	case "enter":
		name, err := lane.ParseName(m.line.String())
		switch {
		case err != nil:
			m.wrong = err.Error()
		case name == m.of.Lane:
			m.wrong = "that is the lane that is held"
		default:
			m.choice.Lane, m.done = name, true
		}
	default:
		before := m.line
		if m.fresh && msg.Type == tea.KeyRunes && !msg.Alt {
			before = newLine("")
		}
		if typed, ok := before.press(msg); ok {
			m.line, m.fresh, m.wrong = typed, false, ""
		}
	}
	return m
}

func (m refused) View() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	t, p := m.fixed.text, &m.fixed.palette
	var out []string
	add := func(c class, s string) { out = append(out, p.paint(c, cut(s, m.width))) }
	add(bold, " lane "+t.clean(string(m.of.Lane), 80)+" | NOT EXPOSED")
	add(plain, strings.Repeat("-", m.width))
	add(plain, "")
	for i, l := range wrap(t.clean(m.of.Why, 600), m.width-8, 4) {
		label := "  !!  "
		if i > 0 {
			label = "      "
		}
		add(badText, label+l)
	}
	if m.of.Since != "" {
		s := "      since " + t.clean(heldTime(m.of.Since), 60)
		if m.of.Active != "" {
			s += ", last request " + t.clean(heldTime(m.of.Active), 60)
		} else {
			s += ", no request yet"
		}
		add(plain, s+" (their clock)")
	}
	add(plain, "")
	switch {
	case m.naming:
		name := t.clean(m.line.String(), 200)
		at := len(t.clean(string(m.line.runes[:m.line.pos]), 200))
		before, under, after := name[:at], " ", ""
		if at < len(name) {
			under, after = name[at:at+1], name[at+1:]
		}
		if label := "      another lane: "; isASCII(name) && len(label)+len(name) < m.width {
			out = append(out, label+before+p.paint(selected, under)+after)
		} else {
			add(plain, label+name)
		}
		add(plain, "")
		if m.wrong != "" {
			for _, l := range wrap(t.clean(m.wrong, 300), m.width-8, 2) {
				add(badText, "      "+l)
			}
		}
	default:
		if m.of.Final {
			add(plain, "      The relay does not let you take it over: it is not yours.")
		} else {
			add(plain, "      t  take over: the other session is told, and ends")
		}
		if m.of.Here {
			add(plain, "      It cannot be joined: one machine serves it once.")
		} else {
			add(plain, "      j  join: stand beside it, both get a part of the calls")
		}
		add(plain, "      n  use another lane name, "+t.clean(string(suggest(m.of.Lane)), 80)+" perhaps")
		add(plain, "      q  quit, and leave it alone")
		for i, l := range m.of.source(t, m.width-6) {
			if i == 0 {
				add(plain, "")
			}
			add(faint, "      "+l)
		}
	}
	keys := " n rename  q quit"
	if !m.of.Here {
		keys = " j join " + keys
	}
	if !m.of.Final {
		keys = " t take over " + keys
	}
	if m.naming {
		keys = " enter start in it  esc back"
	}
	if m.wrong != "" && m.height < leastHeight {
		keys = " " + t.clean(m.wrong, 300)
	}
	if m.height >= 6 {
		out = out[:min(len(out), m.height-2)]
		for len(out) < m.height-2 {
			out = append(out, "")
		}
		add(plain, strings.Repeat("-", m.width))
	} else {
		out = out[:min(len(out), m.height-1)]
	}
	add(plain, keys)
	for i, l := range out {
		if ansi.StringWidth(l) > m.width {
			out[i] = ansi.Truncate(l, m.width, "")
		}
	}
	return strings.Join(out, "\n")
}
