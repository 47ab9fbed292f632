package tui

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"lane/pkg/compare"
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

// hostile is an exchange and a session with s in every field.
func hostile(s string) (traffic.Exchange, control.Status) {
	e := traffic.Exchange{
		Front: traffic.Front(s), From: s, Method: s, URL: "http://" + s + "/" + s + "?token=" + s, Proto: s, Service: s, Tag: s,
		Lane: lane.Name(s), Kind: lane.KindFallback, Reason: lane.Reason(s), Code: lane.Code(s), Note: s, Instance: s,
		Addr: s, Err: s, TraceID: s, ReqHeader: traffic.HeadOf(http.Header{s: {s, s}}), ResHeader: traffic.HeadOf(http.Header{"X": {s}}), Warnings: []string{s},
	}
	st := scene.Status()
	e.Took, e.First, e.DNS, e.Conn = 1<<62, 1<<61, 1<<60, 1<<60
	st.Lane, st.Env, st.Owner, st.Host, st.Proxy, st.Warnings = lane.Name(s), s, s, s, s, []string{s}
	st.Child, st.Log, st.Counts.Errors, st.Counts.Fallbacks = s, s, map[string]uint64{s: 1 << 63}, map[string]uint64{s: 1 << 60}
	st.Registry = control.RegistryStatus{Address: s, State: registryUnreachable, Error: s}
	st.History = []control.Event{{At: scene.Now(), Text: s}}
	st.Services = []control.Service{{Name: s, Registered: s, Mode: s, Guard: s, Local: s, State: s, Note: s,
		Claim: &control.Claim{State: control.ClaimHeld, Since: s, From: s, Relay: s}},
		{Name: s, Local: s, State: control.StateClaimLost, Note: s, Claim: &control.Claim{State: s, Holder: s, Since: s}},
		{Name: s, Local: s, State: control.StateLocalClosed, Note: s, Claim: &control.Claim{State: control.ClaimJoined, Holder: s, Since: "2026-03-02T13:20:00Z"}}}
	st.Relay = &control.RelayStatus{URL: s, Name: s, State: control.RelayLost, Error: s, Tries: 3, Next: scene.Now().Add(time.Hour)}
	st.Steps = []control.Step{{Name: s, Took: 1e9}, {Name: "relay"}}
	st.Killed = s
	return e, st
}

// check looks at every screen that shows the text.
func check(t *testing.T, s string, w, h int, utf8 bool) {
	t.Helper()
	e, st := hostile(s)
	looks := func(name string, u *user) {
		t.Helper()
		view := u.m.View()
		lines := strings.Split(view, "\n")
		if len(lines) > h {
			t.Fatalf("%s: %d lines on %d", name, len(lines), h)
		}
		for _, l := range lines {
			if got := ansi.StringWidth(l); got > w {
				t.Fatalf("%s: %d columns on %d: %q", name, got, w, l)
			}
			for _, r := range sgr.ReplaceAllString(l, "") {
				if r < 0x20 || r >= 0x7f && r < 0xa0 || !utf8 && r > 0x7e {
					t.Fatalf("%s: %q reaches the terminal in %q", name, r, l)
				}
			}
		}
	}
	u := newUser(t, w, h, func(o *Options) { o.UTF8 = utf8 }, doing(&doer{}))
	u.send(statusMsg{at: scene.Now(), err: errors.New(s)})
	looks("connecting", u)
	st.State = control.SessionStarting
	u.send(statusMsg{at: scene.Now(), status: st})
	looks("starting", u)
	st.State = s
	u.send(statusMsg{at: scene.Now(), status: st})
	looks("empty", u)
	u.rows(e, e)
	looks("list", u)
	well := st
	well.Registry = control.RegistryStatus{Address: s, State: registryFresh, Index: 1 << 63}
	well.Relay = &control.RelayStatus{URL: s, Name: s, State: control.RelayOK, Since: scene.Now().Add(-1 << 62)}
	well.Owner, well.Services = "", nil
	u.send(statusMsg{at: scene.Now(), status: well})
	looks("well", u)
	u.send(statusMsg{at: scene.Now(), status: st})
	u.keys("q")
	looks("question", u)
	u.keys("n", "enter")
	looks("detail", u)
	u.keys("G")
	looks("end of the detail", u)
	for _, part := range []string{"2", "3", "4", "5", "1"} {
		u.keys(part)
		looks("part "+part+" of the detail", u)
	}
	u.keys("esc", "/")
	for _, r := range s {
		u.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
		if len(u.m.filter.line.runes) > 12 {
			break
		}
	}
	looks("filter", u)
	u.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(s), Paste: true})
	u.keys("left", "left", "home")
	looks("filter, pasted", u)
	u.keys("esc", "S")
	looks("services", u)
	u.keys("G")
	looks("end of the services", u)
	for _, found := range []diagnosisMsg{{err: errors.New(s)}, {found: []doctor.Finding{{Check: s, Level: doctor.Level(s)},
		{Check: s, Level: doctor.Wrong, What: s, Where: s, Do: s}, {Check: s, Level: doctor.Note, What: s}}}} {
		u.keys("d")
		u.send(found)
		looks("doctor", u)
		u.keys("G")
		looks("end of the doctor's", u)
		u.keys("d")
	}
	for _, key := range []string{"b", "g", "l", "?"} {
		u.keys(key)
		looks("screen "+key, u)
		u.keys("G")
		looks("end of screen "+key, u)
	}
	both := Answer{Answer: compare.Answer{Err: s, Status: 200, Header: http.Header{s: {s}}, Body: []byte(`["` + s + `"]`)}, Decision: s}
	other := both
	other.Err, other.Header, other.Body = "", http.Header{s: {"x"}, "X": {s}}, []byte(`[{"`+s+`":1}]`)
	third := other
	third.Header, third.Body = nil, []byte(s+"\nb")
	for _, b := range [][2]Answer{{both, other}, {other, third}} {
		u.send(answersMsg{answers{of: e, names: [2]string{"BEFORE", "NOW"}, both: b}}).keys("<")
		looks("answers", u)
		u.keys("G")
		looks("end of the answers", u)
	}
	for _, mime := range []string{"application/json", "application/grpc", "application/x-www-form-urlencoded", s} {
		whole := e
		whole.Seq, whole.ReqSize = u.m.detail.of.Seq, 9
		whole.ReqHeader = traffic.HeadOf(http.Header{"Content-Type": {mime}})
		whole.ReqBody = &traffic.Body{Bytes: []byte("\x00\x00\x00\x00\x07" + s)}
		if mime != "application/grpc" {
			whole.ReqBody.Bytes = []byte(s)
		}
		u.keys("esc", "enter", "2").send(wholeMsg{seq: whole.Seq, e: whole})
		looks("a body of "+mime, u)
		u.send(messagesMsg{whole.Seq, traffic.Messages{Req: []string{`{"` + s + `":1}`, s}, Note: s}})
		looks("the messages of "+mime, u)
		u.keys("esc")
	}
	u.keys("esc")
	for range orders {
		u.keys("s")
		looks("another order", u)
	}
	for _, key := range []string{"C", "r", "D", "x"} {
		u.keys(key)
		looks("question of "+key, u)
		u.keys("n")
	}
	u.send(doneMsg{traffic.Printable(s)})
	u.keys("esc", "n", "n", "n", "n")
	looks("no later error", u)
	u.send(statusMsg{at: scene.Now(), err: &http.MaxBytesError{}}, statusMsg{at: scene.Now(), err: &lane.NameError{Why: s}})
	looks("gone", u)
}

var nasty = []string{
	"", "plain", "订单服务/支付", "👩‍👩‍👧‍👦🇩🇪👍🏽", "e\u0301\u0327a\u0300" + strings.Repeat("\u0301", 50), "\x1b[2J\x1b]0;title\a\x1bP1$r\x1b\\",
	"\u009b31m\u0090\u009c", "\r\n\t\v\f\x00\x7f", "\u202eesrever\u202c\u200b\u2066", "\xff\xfe\xc0\x80", "ﷺ﷽𒐫", "กำ ကို हिन्दी", "\ufe0f\u20e3",
	strings.Repeat("/long", 2000), strings.Repeat("漢", 10000), strings.Repeat("\x1b", 10000), "a\u00a0b\u3000c",
	`'";|-:*`, "%1b%5b", "\u00ad\u00ad", "ᄀᄀᄀ각ᆨᆨ",
}

func TestNothingRawReachesTheTerminal(t *testing.T) {
	for _, s := range nasty {
		check(t, s, 80, 24, false) // FuzzScreens begins with the twins of these
		check(t, s, 140, 40, true)
		check(t, s, 40, 10, true)
		check(t, s, 1, 1, false)
	}
}

func FuzzScreens(f *testing.F) {
	for _, s := range nasty {
		f.Add(s, uint8(80), uint8(24), true)
		f.Add(s, uint8(110), uint8(30), false)
	}
	f.Fuzz(func(t *testing.T, s string, w, h uint8, utf8 bool) {
		if w == 0 || h == 0 {
			return
		}
		check(t, s, int(w), int(h), utf8)
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
