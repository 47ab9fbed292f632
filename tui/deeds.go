package tui

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/compare"
	"lane/pkg/doctor"
	"lane/pkg/har"
	"lane/pkg/traffic"
)

// Deeds are what keys do outside of the screen. Whoever owns the engine does
// them: this package sends nothing by itself.
type Deeds interface {
	// Whole is an exchange with its bodies, as far as they were kept, and with its
	// secrets.
	Whole(ctx context.Context, seq uint64) (traffic.Exchange, error)
	// Messages are those of an exchange's gRPC bodies, with their secrets, as the
	// server that answered it describes them: it is asked for that.
	Messages(ctx context.Context, seq uint64) (traffic.Messages, error)
	// Send sends the request of a whole exchange again, through the session's
	// proxy. tag replaces the tag that it had; empty leaves all as it was.
	Send(ctx context.Context, e *traffic.Exchange, tag string) (Answer, error)
	// Copy brings a text to the user's clipboard, as well as the terminal can do
	// that, and says in a few words where it is now.
	Copy(ctx context.Context, text string) (where string, err error)
	// Save writes a new file that only the user can read, and returns its path.
	Save(name string, content []byte) (path string, err error)
	// Reconnect has the session try again at once what it has lost.
	Reconnect(ctx context.Context) error
	// Doctor looks at all that the session depends on.
	Doctor(ctx context.Context) ([]doctor.Finding, error)
}

// Answer is what came of a request that was sent again.
type Answer struct {
	compare.Answer
	Took     time.Duration
	Decision string // X-Lane-Decision
}

// deedLimit bounds what a key starts.
const deedLimit = 35 * time.Second

// What deeds tell the model.
type (
	wholeMsg struct {
		seq uint64
		e   traffic.Exchange
		err error
	}
	messagesMsg struct {
		seq uint64
		of  traffic.Messages
	}
	// answersMsg ends a sending.
	answersMsg struct {
		n       uint64
		answers answers
		err     error
	}
	doneMsg struct{ notice string }
)

// async makes a command of a deed: it runs beside the screen, and ends with it.
func (m *model) async(f func(context.Context) tea.Msg) {
	if m.work != nil {
		m.do = m.work(f)
	}
}

// failure is a notice of what a deed could not do.
func (m *model) failure(what string, err error) doneMsg {
	return doneMsg{what + ": " + m.fixed.text.clean(err.Error(), 300)}
}

// fetch asks for the open exchange's bodies and heads.
func (m model) fetch() model {
	if m.deeds == nil {
		return m
	}
	d, seq := m.deeds, m.detail.of.Seq
	m.async(func(ctx context.Context) tea.Msg {
		e, err := d.Whole(ctx, seq)
		return wholeMsg{seq, e, err}
	})
	return m
}

// describe asks for the messages of the open exchange's gRPC bodies.
func (m model) describe() model {
	d, seq := m.deeds, m.detail.of.Seq
	if d == nil || !isGRPC(m.detail.whole) {
		return m
	}
	m.async(func(ctx context.Context) tea.Msg {
		of, err := d.Messages(ctx, seq)
		if err != nil {
			of.Note = err.Error()
		}
		return messagesMsg{seq, of}
	})
	return m
}

// isGRPC says that an exchange has a gRPC body.
func isGRPC(e *traffic.Exchange) bool {
	is := func(b *traffic.Body, h traffic.Head) bool {
		return b != nil && len(b.Bytes) > 0 && traffic.KindOf(h.Get("Content-Type"), "", b.Bytes) == traffic.BodyGRPC
	}
	return is(e.ReqBody, e.ReqHeader) || is(e.ResBody, e.ResHeader)
}

// copyCurl copies the exchange as a curl line, its secrets masked unless the user
// has said yes to them.
func (m model) copyCurl(e traffic.Exchange, secrets bool) model {
	d, o := m.deeds, m.curlOptions()
	o.Secrets = secrets
	m.notice = "copying" + underWay
	here, have := m.held(&e)
	m.async(func(ctx context.Context) tea.Msg {
		whole, err := d.Whole(ctx, e.Seq)
		if err == nil {
			err = sameRow(&e, &whole)
		}
		if err != nil && have {
			whole, err = here, nil
		}
		if err != nil {
			return m.failure("not copied", err)
		}
		line, err := traffic.Curl(&whole, o)
		if err != nil {
			return m.failure("no curl line", err)
		}
		where, err := d.Copy(ctx, line)
		if err != nil {
			return m.failure("not copied", err)
		}
		what := "copied as curl, secrets masked"
		if secrets {
			what = "copied as curl WITH its secrets"
		}
		return doneMsg{what + ": " + m.fixed.text.clean(where, 200)}
	})
	return m
}

// held is an exchange with all that a curl line needs, if that is here: the session
// may have ended, or have let it go.
func (m *model) held(e *traffic.Exchange) (traffic.Exchange, bool) {
	if w := m.detail.whole; w != nil && w.Seq == e.Seq && w.Start.Equal(e.Start) {
		return *w, true
	}
	return *e, !headless(e) && e.ReqSize == 0
}

// copyProxy copies the line that leads a shell's calls through the session.
func (m model) copyProxy() model {
	d, line := m.deeds, "export HTTP_PROXY="+traffic.ShellWord(m.status.Proxy)+" http_proxy="+traffic.ShellWord(m.status.Proxy)
	if m.status.Proxy == "" {
		m.notice = "the session has no proxy yet"
		return m
	}
	m.async(func(ctx context.Context) tea.Msg {
		where, err := d.Copy(ctx, line)
		if err != nil {
			return m.failure("not copied", err)
		}
		return doneMsg{"copied the proxy's variables: " + m.fixed.text.clean(where, 200) + "; " + m.fixed.text.clean(line, 200)}
	})
	return m
}

func (m *model) curlOptions() traffic.CurlOptions {
	return traffic.CurlOptions{Proxy: m.status.Proxy, CA: m.status.CA}
}

// replay sends a request again and lays the answer beside the old one.
func (m model) replay(e traffic.Exchange) model {
	d := m.deeds
	return m.send(&e, "sending "+m.fixed.text.clean(methodWord(e.Method), 20)+" again", func(ctx context.Context, whole *traffic.Exchange) (answers, error) {
		again, err := d.Send(ctx, whole, "")
		if err != nil {
			return answers{}, err
		}
		old := Answer{Took: whole.Took, Decision: string(whole.Kind) + "; reason=" + string(whole.Reason) + "; instance=" + whole.Instance, Answer: compare.Answer{
			Status: whole.Status, Header: headerOf(whole.ResHeader), NoBody: true, Err: noAnswer(whole)}}
		if b := whole.ResBody; b != nil && !b.Cut {
			old.Body, old.NoBody = b.Bytes, false
		}
		return answers{of: *whole, names: [2]string{"BEFORE", "NOW"}, both: [2]Answer{old, again}}, nil
	})
}

// against sends a request twice, tagged with the lane and as the baseline's.
func (m model) against(e traffic.Exchange) model {
	d, name := m.deeds, string(m.status.Lane)
	return m.send(&e, "sending it to lane and baseline", func(ctx context.Context, whole *traffic.Exchange) (answers, error) {
		inLane, err := d.Send(ctx, whole, name)
		if err != nil {
			return answers{}, err
		}
		inBase, err := d.Send(ctx, whole, "baseline")
		if err != nil {
			return answers{}, err
		}
		return answers{of: *whole, names: [2]string{"BASELINE", "LANE"}, both: [2]Answer{inBase, inLane}, sides: true}, nil
	})
}

// sameRow says that a whole exchange is the row that was asked for, and not one of a
// session that has begun anew meanwhile: its numbers are the same.
func sameRow(row, whole *traffic.Exchange) error {
	if row.Start.Equal(whole.Start) {
		return nil
	}
	return errors.New("the session has begun anew, and this exchange is not its")
}

func repeatable(ctx context.Context, d Deeds, row *traffic.Exchange) (traffic.Exchange, error) {
	whole, err := d.Whole(ctx, row.Seq)
	if err == nil {
		err = sameRow(row, &whole)
	}
	if err == nil {
		err = traffic.Repeatable(&whole)
	}
	return whole, err
}

func noAnswer(e *traffic.Exchange) string {
	if e.Status > 0 {
		return ""
	}
	return traffic.Outcome(e)
}

func headerOf(h traffic.Head) map[string][]string {
	out := map[string][]string{}
	for _, f := range h.Raw() {
		out[f.Name] = append(out[f.Name], f.Value)
	}
	return out
}

// safe says that a method changes nothing where it is served (RFC 9110, 9.2.1).
func safe(method string) bool {
	return method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "TRACE"
}

// export writes the rows that the list shows as HAR.
func (m model) export() model {
	d := m.deeds
	rows := make([]traffic.Exchange, len(m.list.shown))
	for i := range rows {
		rows[i] = *m.list.at(i)
	}
	slices.SortStableFunc(rows, func(a, b traffic.Exchange) int { return cmp.Compare(a.Seq, b.Seq) }) // a HAR goes by time
	marked := m.list.marked
	o := har.Options{Version: m.version, Marked: marked, Comment: "lane " + string(m.status.Lane) + ", filter: " + m.list.filter.String()}
	name := "lane-" + fileWord(string(m.status.Lane)) + "-" + m.now.In(m.fixed.loc).Format("20060102-150405")
	bodies := m.status.Bodies
	m.notice = "writing " + plural(len(rows), "exchange") + underWay
	m.async(func(ctx context.Context) tea.Msg {
		bare := 0
		for i := range rows {
			if !bodies && !headless(&rows[i]) {
				continue
			}
			if whole, err := d.Whole(ctx, rows[i].Seq); err == nil && sameRow(&rows[i], &whole) == nil {
				rows[i] = whole
			} else if headless(&rows[i]) {
				bare++
			}
		}
		b, err := har.Encode(rows, o)
		if err == nil {
			path, err := saveNew(d, name, ".har", b)
			if err == nil {
				notice := m.fixed.text.clean(path, 300) + ": " + plural(len(rows), "exchange") + ", secrets masked"
				if bare > 0 {
					notice += "; the headers of " + count(uint64(bare)) + " are not kept any more"
				}
				return doneMsg{notice}
			}
			return m.failure("not written", err)
		}
		return m.failure("not written", err)
	})
	return m
}

// saveNew saves under a name that nothing has yet: two may be asked for in one second.
func saveNew(d Deeds, name, end string, content []byte) (path string, err error) {
	for n := 1; n < 10; n++ {
		at := name + end
		if n > 1 {
			at = name + "-" + strconv.Itoa(n) + end
		}
		if path, err = d.Save(at, content); !errors.Is(err, fs.ErrExist) {
			return path, err
		}
	}
	return "", err
}

// fileWord is a word that can stand in a file's name.
func fileWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, s)
}

// OSC52 is what brings a text to the clipboard of a terminal that knows it
// (xterm's control sequences, "Manipulate Selection Data").
func OSC52(text string) string {
	return fmt.Sprintf("\x1b]52;c;%s\a", base64.StdEncoding.EncodeToString([]byte(text)))
}
