package tui

import (
	"fmt"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"lane/pkg/lane"
)

func heldRefusal() Refusal {
	return Refusal{Lane: "dev-alice", Why: "orders in lane dev-alice is held by alice@desk-7", Since: "2026-03-02T13:20:00Z", Active: "2026-03-02T14:00:12Z", Claim: "lane/declared/dev-alice/orders"}
}

// relayRefusal is a relay's no, to a session that wanted to take over.
func relayRefusal() Refusal {
	return Refusal{Lane: "dev-alice", Why: "orders in lane dev-alice is held by bob on desk-9 since 2026-03-02T13:20:00Z (by their clock)", Claim: "lane/declared/dev-alice/orders",
		Code: "409", Relay: "relay-1:7443", Request: "KVN3X7QW2ABC", Final: true}
}

// pressed is a refusal's screen after keys.
func pressed(t *testing.T, w, h int, keys ...string) refused {
	t.Helper()
	return pressedWith(t, Options{}, w, h, keys...)
}

func pressedWith(t *testing.T, o Options, w, h int, keys ...string) refused {
	t.Helper()
	return pressedAt(t, heldRefusal(), o, w, h, keys...)
}

func pressedAt(t *testing.T, r Refusal, o Options, w, h int, keys ...string) refused {
	t.Helper()
	next, _ := newRefused(r, o).Update(tea.WindowSizeMsg{Width: w, Height: h})
	for _, k := range keys {
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
		if named, ok := map[string]tea.KeyType{"enter": tea.KeyEnter, "esc": tea.KeyEsc, "ctrl+c": tea.KeyCtrlC, "ctrl+u": tea.KeyCtrlU, "left": tea.KeyLeft, "backspace": tea.KeyBackspace}[k]; ok {
			msg = tea.KeyMsg{Type: named}
		}
		next, _ = next.Update(msg)
	}
	return next.(refused)
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		keys        string
		done, stop  bool
		want        Choice
		screen, not string
	}{
		{"", false, false, Choice{}, "t  take over", ""},
		{"t", true, false, Choice{TakeOver: true}, "", ""},
		{"j", true, false, Choice{Join: true}, "", ""},
		{"q", true, false, Choice{}, "", ""},
		{"y", false, false, Choice{}, "held by alice@desk-7", ""},
		{"ctrl+c", true, true, Choice{}, "", ""},
		{"n", false, false, Choice{}, "another lane: dev-alice-2", "t  take over"},
		{"n enter", true, false, Choice{Lane: "dev-alice-2"}, "", ""},
		{"n d e v", false, false, Choice{}, "another lane: dev", "dev-alice-2"},
		{"n backspace 3 enter", true, false, Choice{Lane: "dev-alice-3"}, "", ""},
		{"n esc", false, false, Choice{}, "t  take over", "another lane:"},
		{"n ctrl+u d e v - q enter", true, false, Choice{}, "", ""},
		{"n ctrl+u A enter", false, false, Choice{}, "another lane: A", ""},
		{"n ctrl+u d e v - a l i c e enter", false, false, Choice{}, "that is the lane that is held", ""},
		{"n ctrl+c", true, true, Choice{}, "", ""},
	} {
		keys := strings.Fields(c.keys)
		if strings.HasSuffix(c.keys, "- q enter") { // q is a letter here
			c.want.Lane = "dev-q"
		}
		m := pressed(t, 80, 24, keys...)
		if m.done != c.done || m.interrupted != c.stop || m.choice != c.want {
			t.Errorf("%q: done %v, interrupted %v, %+v", c.keys, m.done, m.interrupted, m.choice)
		}
		view := ansi.Strip(m.View())
		if !strings.Contains(view, c.screen) || c.not != "" && strings.Contains(view, c.not) {
			t.Errorf("%q shows\n%s", c.keys, view)
		}
	}
	// What a relay does not let one take is not offered again.
	if m := pressedAt(t, relayRefusal(), Options{}, 80, 24, "t"); m.done || m.choice.TakeOver || strings.Contains(m.View(), "t take over") {
		t.Errorf("%+v\n%s", m.choice, m.View())
	}
	if m := pressedAt(t, relayRefusal(), Options{}, 80, 24, "j"); !m.choice.Join {
		t.Errorf("it may be joined: %+v", m.choice)
	}
	// Beside a session of the same machine there is no place.
	here := relayRefusal()
	here.Here = true
	if m := pressedAt(t, here, Options{}, 80, 24, "j"); m.done || m.choice.Join || strings.Contains(m.View(), "j join") || !strings.Contains(m.View(), "It cannot be joined") {
		t.Errorf("%+v\n%s", m.choice, m.View())
	}
	if m := pressedAt(t, relayRefusal(), Options{}, 80, 24, "n", "enter"); m.choice.Lane != "dev-alice-2" {
		t.Errorf("%+v", m.choice)
	}
	// A text that was pasted is no key.
	m, _ := pressed(t, 80, 24).Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("t"), Paste: true})
	if m.(refused).done {
		t.Error("a pasted t took over")
	}
}

// What is to be told to others stays in one piece.
func TestTheSourceOfARefusal(t *testing.T) {
	r := relayRefusal()
	for w, want := range map[int]string{
		96: "code 409   relay relay-1:7443   request KVN3X7QW2ABC   claim lane/declared/dev-alice/orders",
		74: "code 409   relay relay-1:7443   request KVN3X7QW2ABC|claim lane/declared/dev-alice/orders",
		20: "code 409|relay relay-1:7443|request KVN3X7QW2ABC|claim lane/declared/dev-alice/orders",
	} {
		if got := strings.Join(r.source(text{}, w), "|"); got != want {
			t.Errorf("%d columns: %s", w, got)
		}
	}
	r.Request = "" // of a relay that does not say it
	if got := strings.Join(r.source(text{}, 80), "|"); got != "code 409   relay relay-1:7443   claim lane/declared/dev-alice/orders" {
		t.Error(got)
	}
	if got := (&Refusal{Why: "x"}).source(text{}, 80); got != nil {
		t.Errorf("%q", got)
	}
}

func TestSuggest(t *testing.T) {
	for in, want := range map[lane.Name]lane.Name{"dev-alice": "dev-alice-2", "dev-alice-2": "dev-alice-3", "dev2": "dev2-2", "a": "a-2"} {
		if got := suggest(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestGoldenRefused(t *testing.T) {
	for _, s := range [][2]int{{80, 24}, {100, 30}, {140, 40}, {40, 10}} {
		for name, c := range map[string]struct {
			of   Refusal
			keys []string
		}{"refused": {heldRefusal(), nil}, "refused-relay": {relayRefusal(), nil}, "refused-rename": {heldRefusal(), []string{"n", "left"}},
			"refused-wrong": {heldRefusal(), []string{"n", "ctrl+u", "A", "enter"}}} {
			view := ansi.Strip(pressedAt(t, c.of, Options{}, s[0], s[1], c.keys...).View())
			lines := strings.Split(view, "\n")
			if len(lines) > s[1] {
				t.Errorf("%d lines on %d", len(lines), s[1])
			}
			for i, l := range lines {
				if ansi.StringWidth(l) > s[0] {
					t.Errorf("%q is wider than %d", l, s[0])
				}
				lines[i] = strings.TrimRight(l, " ")
			}
			name = fmt.Sprintf("%s-%dx%d", name, s[0], s[1])
			golden(t, name, strings.Join(lines, "\n")+"\n")
			for word, color := range map[string]bool{"-color": true, "-nocolor": false} {
				raw := pressedAt(t, c.of, Options{Color: color}, s[0], s[1], c.keys...).View()
				if hasColour(raw) != color {
					t.Errorf("%s%s: colour on the screen is %v", name, word, !color)
				}
				golden(t, name+word, strings.ReplaceAll(raw, "\x1b", "^[")+"\n")
			}
		}
	}
	for _, s := range nasty {
		for _, size := range [][2]int{{80, 24}, {20, 5}, {1, 1}} {
			m := pressed(t, size[0], size[1], "n")
			m.of = Refusal{Lane: lane.Name(s), Why: s, Since: s + "x", Active: s, Claim: s, Code: s, Relay: s, Final: len(s)%2 == 0, Here: len(s)%3 == 0}
			m.line = m.line.insert([]rune(s))
			m.wrong = s
			for _, naming := range []bool{true, false} {
				m.naming = naming
				for l := range strings.SplitSeq(m.View(), "\n") {
					if ansi.StringWidth(l) > size[0] {
						t.Errorf("%q is wider than %d", l, size[0])
					}
					for _, r := range sgr.ReplaceAllString(l, "") {
						if r < 0x20 || r > 0x7e {
							t.Errorf("%q reaches the terminal in %q", r, l)
						}
					}
				}
			}
		}
	}
}
