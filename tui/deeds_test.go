package tui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/compare"
	"lane/pkg/doctor"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// doer does deeds and remembers them.
type doer struct {
	bodies   map[uint64][2]string
	messages traffic.Messages
	fail     error
	answer   func(tag string) Answer

	sent   []string // tag and URL
	copied []string
	saved  map[string]string
	again  int
}

var _ Deeds = (*doer)(nil)

func (d *doer) Messages(context.Context, uint64) (traffic.Messages, error) { return d.messages, d.fail }

func (d *doer) Whole(_ context.Context, seq uint64) (traffic.Exchange, error) {
	if d.fail != nil {
		return traffic.Exchange{}, d.fail
	}
	e := scene.Stream(seq, 1)[0]
	if rows := scene.Exchanges(); seq <= uint64(len(rows)) {
		e = rows[seq-1]
	}
	if b, ok := d.bodies[seq]; ok {
		e.ReqBody, e.ResBody = &traffic.Body{Bytes: []byte(b[0])}, &traffic.Body{Bytes: []byte(b[1])}
		e.ReqSize, e.ResSize = int64(len(b[0])), int64(len(b[1]))
	}
	return e, nil
}

func (d *doer) Send(_ context.Context, e *traffic.Exchange, tag string) (Answer, error) {
	d.sent = append(d.sent, strings.TrimSpace(tag+" "+e.Method+" "+e.URL))
	if d.fail != nil {
		return Answer{}, d.fail
	}
	if d.answer != nil {
		return d.answer(tag), nil
	}
	return Answer{Answer: compare.Answer{Status: 200, Header: http.Header{}}, Took: time.Millisecond}, nil
}

func (d *doer) Copy(_ context.Context, text string) (string, error) {
	d.copied = append(d.copied, text)
	return "in the clipboard", d.fail
}

func (d *doer) Save(name string, content []byte) (string, error) {
	if d.saved == nil {
		d.saved = map[string]string{}
	}
	d.saved[name] = string(content)
	return "./" + name, d.fail
}

func (d *doer) Reconnect(context.Context) error { d.again++; return d.fail }

func (d *doer) Doctor(context.Context) ([]doctor.Finding, error) {
	return []doctor.Finding{
		{Check: "settings", Level: doctor.Well, What: "all of them are valid"},
		{Check: "consumers", Level: doctor.Note, What: "batch-01 calls orders without a tag", Do: "lane policy set orders isolated"},
		{Check: "proxy", Level: doctor.Wrong, What: "HTTP_PROXY leads to lane itself", Where: "HTTP_PROXY", Do: "unset it"},
	}, d.fail
}

func doing(d *doer) func(*Options) { return func(o *Options) { o.Deeds = d } }

// deeds presses keys and does what they ask for, at once.
func (u *user) deeds(names ...string) *user {
	u.t.Helper()
	u.m.work = func(f func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg { return f(u.t.Context()) }
	}
	for _, n := range names {
		u.keys(n)
		for do := u.m.do; do != nil; do = u.m.do { // one may ask for the next
			u.send(do())
		}
	}
	return u
}

func TestCopyAsCurl(t *testing.T) {
	d := &doer{}
	u := newUser(t, 140, 40, doing(d)).running()
	u.deeds("c").wantScreen("as curl, secrets masked: in the clipboard")
	if len(d.copied) != 1 || !strings.Contains(d.copied[0], "Bearer ***") || strings.Contains(d.copied[0], "eyJ") {
		t.Fatalf("copied %q", d.copied)
	}
	// Secrets are asked for, and no is no.
	u.deeds("C").wantScreen("in clear?").deeds("n").wantScreen("not:in clear?").deeds("C", "x").wantScreen("in clear?").deeds("esc")
	if len(d.copied) != 1 {
		t.Fatalf("copied without a yes: %q", d.copied)
	}
	u.deeds("C", "y").wantScreen("WITH its secrets")
	if len(d.copied) != 2 || !strings.Contains(d.copied[1], "Bearer eyJhbGciOiJIUzI1NiJ9.e30.x") {
		t.Fatalf("copied %q", d.copied)
	}
	// A row that is no request, and one whose body is gone, say why.
	u.keys("<").deeds("c").wantScreen("no curl line: its body was not kept")
	u.keys("j", "j", "j", "j").deeds("c").wantScreen("no curl line: a tunnel shows no request")
	if len(d.copied) != 2 {
		t.Error("something was copied")
	}
	d.fail = errors.New("gone")
	u.deeds("c").wantScreen("not copied: gone")
}

func TestReplay(t *testing.T) {
	d := &doer{bodies: map[uint64][2]string{
		1: {`{"sku":9}`, `{"id":1}`},
		7: {"", `{"name":"Ann","roles":["a","b"],"token":"t1"}`},
	}}
	d.answer = func(tag string) Answer {
		body := `{"name":"Bob","roles":["a"],"token":"t2"}`
		if tag == "baseline" {
			body = `{"name":"Ann","roles":["a","b"],"token":"t1"}`
		}
		return Answer{Answer: compare.Answer{Status: 200, Body: []byte(body),
			Header: http.Header{"Content-Type": {"application/json"}, "Set-Cookie": {"sid=9"}, "Date": {"now"}}},
			Took: 12 * time.Millisecond, Decision: "LANE_MATCH; lane=dev-alice"}
	}
	u := newUser(t, 80, 24, doing(d)).running()
	u.deeds("r").wantScreen("SENT AGAIN  GET http://users/v1/users/7", "BEFORE", "NOW", `- "Ann"`, `+ "Bob"`, "body .roles[1]", "not:date")
	if got := strings.Join(d.sent, "|"); got != "GET http://users/v1/users/7" {
		t.Errorf("sent %q", got)
	}
	u.wantScreen("not:t1", "not:t2", "not:sid=9") // secrets of answers, too
	u.keys("esc").wantScreen("FOLLOW")
	// The same request to both.
	u.deeds("D").wantScreen("LANE AGAINST BASELINE  GET", "BASELINE", "body .name")
	if got := strings.Join(d.sent[1:], "|"); got != "dev-alice GET http://users/v1/users/7|baseline GET http://users/v1/users/7" {
		t.Errorf("sent %q", got)
	}
	// What may change something is asked for.
	u.keys("esc", "<").deeds("r").wantScreen("May change something: send POST orders /api/orders again?").deeds("n")
	if len(d.sent) != 3 {
		t.Fatalf("sent %q", d.sent)
	}
	u.deeds("r", "y")
	if got := d.sent[len(d.sent)-1]; got != "POST http://orders/api/orders" {
		t.Errorf("sent %q", got)
	}
	// Without its body it is not sent.
	delete(d.bodies, 1)
	n := len(d.sent)
	u.keys("esc", "<").deeds("r", "y").wantScreen("not sent: its body was not kept")
	u.send(statusMsg{at: scene.Now(), err: errors.New("refused")}).deeds("r").wantScreen("the session does not answer")
	if len(d.sent) != n {
		t.Errorf("sent %q", d.sent[n:])
	}
}

// Two answers of the baseline say nothing of the lane, and are not just "no difference".
func TestDiffSaysThatTheLaneDidNotServe(t *testing.T) {
	const itself = "The lane did not serve it: the baseline was compared with itself"
	for name, c := range map[string]struct {
		a    Answer
		want []string
	}{
		"served":     {Answer{Decision: "LANE_MATCH; lane=dev-alice"}, []string{"No difference in status", "not:did not serve"}},
		"fell back":  {Answer{Decision: "FALLBACK_BASELINE; lane=dev-alice"}, []string{itself + ", unless", "No difference in status"}},
		"switch off": {Answer{Decision: "KILL_SWITCH_BASELINE; lane=dev-alice"}, []string{itself + "."}},
		"not known":  {Answer{}, []string{"not:did not serve"}},
		"failed":     {Answer{Decision: "ERROR", Answer: compare.Answer{Err: "EOF"}}, []string{"not:did not serve"}},
		"lane's own": {Answer{Decision: "ERROR", Answer: compare.Answer{Header: http.Header{"X-Lane-Error": {"E_X"}}}}, []string{"not:did not serve"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &doer{bodies: map[uint64][2]string{7: {"", "{}"}}}
			d.answer = func(string) Answer { return c.a }
			u := newUser(t, 140, 40, doing(d)).running()
			u.deeds("D").wantScreen(append(c.want, "LANE AGAINST BASELINE  GET")...)
			// Of the request sent again, both are as they are.
			u.keys("esc").deeds("r").wantScreen("SENT AGAIN", "not:did not serve")
		})
	}
}

func TestExport(t *testing.T) {
	d := &doer{}
	u := newUser(t, 80, 24, doing(d)).running().keys("m", "/svc:users|inventory", "enter").deeds("e")
	u.wantScreen("./lane-dev-alice-20260302-140215.har: 2 exchanges, secrets masked")
	content := d.saved["lane-dev-alice-20260302-140215.har"]
	var har struct {
		Log struct {
			Entries []struct {
				Request struct{ URL string }
				Marked  bool `json:"_marked"`
			}
		}
	}
	if err := json.Unmarshal([]byte(content), &har); err != nil {
		t.Fatal(err)
	}
	if n := har.Log.Entries; len(n) != 2 || n[0].Request.URL != "http://inventory/v1/stock?sku=9&api_key=***" || n[0].Marked || !n[1].Marked {
		t.Errorf("entries %+v", n)
	}
	if strings.Contains(content, "eyJ") || strings.Contains(content, "31d4") || strings.Contains(content, "s3cr3t") {
		t.Error("a secret is in the file")
	}
	u.keys("esc", "/svc:ghost", "enter").deeds("e").wantScreen("there is no row to export")
	d.fail = errors.New("disk full")
	u.keys("esc").deeds("e").wantScreen("not written: disk full")
}

func TestCopyProxy(t *testing.T) {
	d := &doer{}
	newUser(t, 140, 40, doing(d)).deeds("p").wantScreen("the session has no proxy yet").status(unused).deeds("p").wantScreen("in the clipboard")
	if len(d.copied) != 1 || d.copied[0] != "export HTTP_PROXY=http://127.0.0.1:7474 http_proxy=http://127.0.0.1:7474" {
		t.Errorf("copied %q", d.copied)
	}
}

func TestMarkAndClear(t *testing.T) {
	u := newUser(t, 80, 24).running().keys("k", "m").wantScreen("x#14:02:13 orders").keys("<").wantScreen("x*14:02:13 orders")
	u.keys("m", "m").wantScreen(" |14:02:11")
	u.keys("x").wantScreen("Clear the list?").keys("n").wantScreen("7 exchanges")
	u.keys("x", "y").wantScreen("not:14:02:11").rows(scene.Stream(8, 3)...).wantSeq(10).wantScreen("3 exchanges", "FOLLOW", "not:*14")
	u.keys("space").rows(scene.Stream(11, 2)...).keys("x", "y").rows(scene.Stream(13, 1)...).keys("space").wantScreen("1 exchange ")
}

// Without somebody who does them, there are no keys for deeds.
func TestNoDeeds(t *testing.T) {
	u := newUser(t, 80, 24).running()
	for _, k := range []string{"c", "C", "r", "D", "e"} {
		u.deeds(k).wantScreen("7 exchanges", "not:not ")
	}
	u.keys("?").wantScreen("not:HAR").keys("G").wantScreen("not:HAR", "not:curl")
}

func TestBodiesAreAskedFor(t *testing.T) {
	d := &doer{bodies: map[uint64][2]string{7: {"", `{"password":"x1x1","n":[1,2]}`}}}
	u := newUser(t, 80, 24, doing(d)).running().deeds("3")
	u.wantScreen("[3 response]", "content-type: application/json", "set-cookie: sid=***", `"password": "***"`, "    1,", "not:x1x1")
	// What is kept of a drawing is another one at another size and part.
	narrow := u.screen()
	u.send(tea.WindowSizeMsg{Width: 70, Height: 20}).wantScreen("[3 response]", strings.Repeat("-", 70))
	if u.send(tea.WindowSizeMsg{Width: 80, Height: 24}).screen() != narrow {
		t.Errorf("after two sizes:\n%s", u.screen())
	}
	u.keys("2").wantScreen("[2 request]", "not:password").keys("3").wantScreen(`"password": "***"`)
	u.keys("tab").wantScreen("[4 hops]", "GET http://users", "<- this one").keys("tab").wantScreen("[5 curl]", "curl -g", "Bearer ***").keys("tab").wantScreen("[1 overview]")
	d.fail = errors.New("gone")
	u.keys("esc").deeds("2").wantScreen("No body.").keys("3").wantScreen("cannot be had: gone")
	newUser(t, 80, 24).running().keys("3").wantScreen("not kept. A session")
}
