package tui

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"lane/pkg/control"
	"lane/pkg/doctor"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// sgr are the only sequences that we draw with.
var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// hasColour reports whether a sequence sets a colour.
func hasColour(s string) bool {
	return regexp.MustCompile("\x1b\\[([0-9]+;)*(3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]").MatchString(s)
}

// fitsScreen checks what reaches the terminal: no line that is too wide, none too many,
// no byte that would act on it.
func fitsScreen(t *testing.T, name string, u *user) {
	t.Helper()
	w, h := u.m.width, u.m.height
	lines := strings.Split(u.m.View(), "\n")
	if len(lines) > h {
		t.Fatalf("%s: %d lines on %d", name, len(lines), h)
	}
	for _, l := range lines {
		if got := ansi.StringWidth(l); got > w {
			t.Fatalf("%s: %d columns on %d: %q", name, got, w, l)
		}
		for _, r := range sgr.ReplaceAllString(l, "") {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || !u.m.fixed.text.utf8 && r > 0x7e {
				t.Fatalf("%s: %q reaches the terminal in %q", name, r, l)
			}
		}
	}
}

// visits are ways over the screens that show the text, each from the same beginning: a
// session and its rows.
var visits = []func(t *testing.T, s string, u *user){
	// How it begins.
	func(t *testing.T, s string, u *user) {
		st := hostileStatus(s)
		u = hostileUser(t, s, u.m.width, u.m.height, u.m.fixed.text.utf8)
		u.send(statusMsg{at: scene.Now(), err: errors.New(s)})
		fitsScreen(t, "connecting", u)
		begun := st
		begun.State = control.SessionStarting
		u.send(statusMsg{at: scene.Now(), status: begun})
		fitsScreen(t, "starting", u)
		u.send(statusMsg{at: scene.Now(), status: st})
		fitsScreen(t, "empty", u)
	},
	// What to try, and all that a session can be.
	func(t *testing.T, s string, u *user) {
		u.keys("t")
		fitsScreen(t, "what to try", u)
		u.keys("esc")
		for i, other := range hostileStates(s) {
			if !turn(i, s, u) {
				continue
			}
			u.send(statusMsg{at: scene.Now(), status: other})
			fitsScreen(t, fmt.Sprint("list of state ", i), u)
			for _, open := range []screen{screenServices, screenEvents} {
				u.open(open)
				fitsScreen(t, fmt.Sprint("screen ", open, " of state ", i), u)
				u.keys("esc")
			}
		}
	},
	// The rows and their details.
	func(t *testing.T, s string, u *user) {
		rows := hostileRows(s)
		for i := range rows {
			if turn(i, s, u) {
				u.keys("enter")
				fitsScreen(t, fmt.Sprint("detail of row -", i), u)
				u.keys("esc")
			}
			u.keys("k")
		}
		fitsScreen(t, "list, at its top", u)
		u.keys("G")
		u.keys("q")
		fitsScreen(t, "question", u)
		u.keys("n", "enter")
		fitsScreen(t, "detail", u)
		u.keys("G")
		fitsScreen(t, "end of the detail", u)
		for _, part := range []string{"2", "3", "4", "5", "1"} {
			u.keys(part)
			fitsScreen(t, "part "+part+" of the detail", u)
		}
	},
	// A filter, typed and pasted.
	func(t *testing.T, s string, u *user) {
		u.keys("/")
		for _, r := range s {
			u.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
			if len(u.m.filter.line.runes) > 12 {
				break
			}
		}
		fitsScreen(t, "filter", u)
		u.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(s), Paste: true})
		u.keys("left", "left", "home")
		fitsScreen(t, "filter, pasted", u)
	},
	// The texts over the list.
	func(t *testing.T, s string, u *user) {
		u.keys("S")
		fitsScreen(t, "services", u)
		u.keys("G")
		fitsScreen(t, "end of the services", u)
		for _, found := range []diagnosisMsg{{err: errors.New(s)}, {found: []doctor.Finding{filled[doctor.Finding](s),
			{Check: s, Level: doctor.Wrong, What: s, Where: s, Do: s}, {Check: s, Level: doctor.Note, What: s}}}} {
			u.keys("d")
			u.send(found)
			fitsScreen(t, "doctor", u)
			u.keys("G")
			fitsScreen(t, "end of the doctor's", u)
			u.keys("d")
		}
		for _, key := range []string{"b", "g", "l", "?"} {
			u.keys(key)
			fitsScreen(t, "screen "+key, u)
			u.keys("G")
			fitsScreen(t, "end of screen "+key, u)
		}
	},
	// Answers.
	func(t *testing.T, s string, u *user) {
		rows := hostileRows(s)
		e := rows[len(rows)-1]
		both := filled[Answer](s)
		both.NoBody = false
		other := both
		other.Err, other.Header, other.Body = "", http.Header{s: {"x"}, "X": {s}}, []byte(`[{"`+s+`":1}]`)
		third := other
		third.Header, third.Body = nil, []byte(s+"\nb")
		for _, b := range [][2]Answer{{both, other}, {other, third}} {
			u.m.sending = &sending{cancel: func() {}}
			u.send(answersMsg{answers: answers{of: e, names: [2]string{"BEFORE", "NOW"}, both: b}})
			if b[0].Err != "" {
				u.keys("a") // a key was pressed since
			}
			u.keys("<")
			fitsScreen(t, "answers", u)
			u.keys("G")
			fitsScreen(t, "end of the answers", u)
		}
	},
	// Bodies.
	func(t *testing.T, s string, u *user) {
		rows := hostileRows(s)
		e := rows[len(rows)-1]
		for _, mime := range []string{"application/json", "application/grpc", "application/x-www-form-urlencoded", s} {
			whole := e
			u.keys("esc", "enter", "2")
			whole.Seq, whole.ReqSize = u.m.detail.of.Seq, 9
			whole.ReqHeader = traffic.HeadOf(http.Header{"Content-Type": {mime}})
			whole.ReqBody = &traffic.Body{Bytes: []byte("\x00\x00\x00\x00\x07" + s)}
			if mime != "application/grpc" {
				whole.ReqBody.Bytes = []byte(s)
			}
			u.send(wholeMsg{seq: whole.Seq, e: whole})
			fitsScreen(t, "a body of "+mime, u)
			u.send(messagesMsg{whole.Seq, traffic.Messages{Req: []string{`{"` + s + `":1}`, s}, Note: s}})
			fitsScreen(t, "the messages of "+mime, u)
			u.keys("esc")
		}
	},
	// Orders and questions.
	func(t *testing.T, s string, u *user) {
		for range orders {
			u.keys("s")
			fitsScreen(t, "another order", u)
		}
		for _, key := range []string{"C", "r", "D", "x"} {
			u.keys(key)
			fitsScreen(t, "question of "+key, u)
			u.keys("n")
		}
	},
	// Many.
	func(t *testing.T, s string, u *user) {
		rows := hostileRows(s)
		// Exchanges of such names, of which there are many.
		for i := range 40 {
			more := rows[i%len(rows)]
			more.Service, more.Front = strings.Repeat("x", i%7)+more.Service, traffic.FrontForward
			u.rows(more)
		}
		for _, open := range []screen{screenFallbacks, screenGraph, screenServices} {
			u.open(open)
			fitsScreen(t, fmt.Sprint("many on screen ", open), u)
			u.keys("G")
			fitsScreen(t, fmt.Sprint("end of the many on screen ", open), u)
			u.keys("esc")
		}
	},
	// The end.
	func(t *testing.T, s string, u *user) {
		u.send(doneMsg{traffic.Printable(s)})
		u.keys("esc", "n", "n", "n", "n")
		fitsScreen(t, "no later error", u)
		u.send(statusMsg{at: scene.Now(), err: &http.MaxBytesError{}}, statusMsg{at: scene.Now(), err: &lane.NameError{Why: s}})
		fitsScreen(t, "gone", u)
	},
}

// turn is true for a third of what is visited, for it is a hundred times.
func turn(i int, s string, u *user) bool { return (i+len(s)+u.m.width+u.m.height)%3 == 0 }

// hostileUser is somebody who looks at such a program.
func hostileUser(t *testing.T, s string, w, h int, utf8 bool) *user {
	t.Helper()
	return newUser(t, w, h, func(o *Options) { o.UTF8, o.Hint, o.Try, o.Version = utf8, s, []string{s, "  " + s}, s }, doing(&doer{}))
}

// check goes one of the visits.
func check(t *testing.T, s string, w, h int, utf8 bool, visit int) {
	t.Helper()
	u := hostileUser(t, s, w, h, utf8).send(statusMsg{at: scene.Now(), status: hostileStatus(s)}).rows(hostileRows(s)...)
	fitsScreen(t, "list", u)
	visits[visit](t, s, u)
}

var nasty = []string{
	"", "plain", "订单服务/支付", "👩‍👩‍👧‍👦🇩🇪👍🏽", "e\u0301\u0327a\u0300" + strings.Repeat("\u0301", 50), "\x1b[2J\x1b]0;title\a\x1bP1$r\x1b\\",
	"\u009b31m\u0090\u009c", "\r\n\t\v\f\x00\x7f", "\u202eesrever\u202c\u200b\u2066", "\xff\xfe\xc0\x80", "ﷺ﷽𒐫", "กำ ကို हिन्दी", "\ufe0f\u20e3",
	strings.Repeat("/long", 2000), strings.Repeat("漢", 10000), strings.Repeat("\x1b", 10000), "a\u00a0b\u3000c",
	`'";|-:*`, "%1b%5b", "\u00ad\u00ad", "ᄀᄀᄀ각ᆨᆨ",
	// A link, a clipboard, a query that a terminal answers; the same in C1, which is UTF-8 here.
	"\x1b]8;;http://evil.test/\x1b\\x\x1b]8;;\a\x1b]52;c;cm0=\a\x1b[6n\x1bc", "\u009d8;;http://evil.test/\u009cx\u009d52;c;cm0=\u009c\u009b6n",
	"🏴\U000e0067\U000e0062\U000e007f🏳️‍🌈👨🏿‍🚀", "\u2028\u2029\ufeff\u115f\u3164\ufffc\ufff9", "\u2067\u2068\u2069\u200e\u200f\u061c\u206a",
	strings.Repeat("e\u0301", 5000), strings.Repeat("👩‍👩‍👧‍👦", 1000), "/" + strings.Repeat("a\u202e\x1b]0;t\a/", 1000),
}

const longText = 5000

func TestNothingRawReachesTheTerminal(t *testing.T) {
	for i, s := range nasty {
		for visit := range visits {
			if len(s) < longText {
				check(t, s, 80, 24, false, visit)
			} else if (i+visit)%5 > 0 { // they are slow: two of the ways each, in all each
				continue
			}
			switch (i + visit) % 3 {
			case 0:
				check(t, s, 140, 40, true, visit)
			case 1:
				check(t, s, 80, 24, true, visit)
			case 2:
				check(t, s, 40, 10, false, visit)
				check(t, s, 1, 1, true, visit)
			}
		}
	}
}

// keyOf is the key that opens a screen.
func keyOf(s screen) string { return keyOfAct(s.opener()) }

// keyOfAct is the key that does something.
func keyOfAct(a action) string {
	for _, b := range bindings() {
		if b.act == a {
			return b.Keys()[0]
		}
	}
	return "" // no key: it is pressed in vain
}

// open opens a screen by its key.
func (u *user) open(s screen) {
	u.t.Helper()
	if u.keys(keyOf(s)); u.m.screen != s {
		u.t.Fatalf("screen %d is open, not %d", u.m.screen, s)
	}
}

// TestEverySize: at sizes from one character on, whatever is open.
func TestEverySize(t *testing.T) {
	s := "订单/👩‍👩‍👧‍👦\x1b[2Je\u0301\u202e" + strings.Repeat("/long", 100)
	for _, utf8 := range []bool{false, true} {
		opened := [][]string{nil, {"enter"}, {"2"}, {"3"}, {"4"}, {"5"}, {"q"}, {"x"}, {"/st:6"}}
		for open := screenList + 1; open.place() != inList; open++ {
			if open.opener() != actNone {
				opened = append(opened, []string{keyOf(open)})
			}
		}
		for _, open := range opened {
			u := newUser(t, 80, 24, func(o *Options) { o.UTF8, o.Color = utf8, true }, doing(&doer{}))
			u.send(statusMsg{at: scene.Now(), status: hostileStatus(s)}).rows(hostileRows(s)...).keys(open...)
			if u.m.screen == screenDoctor {
				u.send(diagnosisMsg{found: []doctor.Finding{filled[doctor.Finding](s)}})
			}
			for i := range 60 {
				w, h := 1+i*37%200, 1+i*23%60
				u.send(tea.WindowSizeMsg{Width: w, Height: h})
				fitsScreen(t, fmt.Sprintf("%q at %dx%d", open, w, h), u)
			}
		}
	}
}

func FuzzScreens(f *testing.F) {
	for i, s := range nasty {
		f.Add(s, uint8(80), uint8(24), true, uint8(i))
		f.Add(s, uint8(110), uint8(30), false, uint8(i+1))
	}
	f.Fuzz(func(t *testing.T, s string, w, h uint8, utf8 bool, visit uint8) {
		if w == 0 || h == 0 {
			return
		}
		check(t, s, int(w), int(h), utf8, int(visit)%len(visits))
	})
}

// TestSecretsStayAway: no screen shows one.
func TestSecretsStayAway(t *testing.T) {
	e := scene.Exchanges()[0]
	const secret = "hunter2hunter2"
	e.URL = "http://u:" + secret + "@orders/cb?token=" + secret + "&sig=" + secret + "&password=" + secret
	e.ReqHeader = traffic.HeadOf(http.Header{"Authorization": {"Bearer " + secret}, "Cookie": {"a=" + secret}, "Proxy-Authorization": {secret},
		"X-Auth-Token": {secret}, "X-Api-Key": {secret}, "Referer": {"http://x/?secret=" + secret}})
	e.ResHeader = traffic.HeadOf(http.Header{"Set-Cookie": {"a=" + secret + "; Path=/"}, "Location": {"/x?api_key=" + secret}})
	for _, size := range [][2]int{{80, 24}, {140, 40}, {200, 100}, {40, 10}} {
		u := newUser(t, size[0], size[1]).status().rows(e)
		for _, keys := range []string{"", "enter", "G", "2", "3", "4", "5"} {
			if keys != "" {
				u.keys(keys)
			}
			if s := strings.ReplaceAll(u.screen(), "\n", ""); strings.Contains(s, "hunter") {
				t.Errorf("%v after %q shows a secret:\n%s", size, keys, u.screen())
			}
		}
	}
	// The twin: what is no secret is there.
	newUser(t, 200, 100).status().rows(scene.Exchanges()...).keys("enter", "2").wantScreen("x-lane-tag: dev-alice", "accept: application/json")
}
