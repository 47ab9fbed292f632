package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// message is one request of a random conversation, and what is asked for in its
// response.
type message struct {
	method, path string
	minor        int
	fields       []string // that arrive as they are
	hop          []string // that do not arrive
	tag          string   // lines that carry it
	chunked      bool
	body         []byte
	chunks       []int  // sizes, in turn
	extension    string // of each chunk
	trailer      string
	expect       bool
	want         string // how the response ends
	hint         bool
	who          string // who is to answer
}

// pattern is a body in which no two places look the same.
func pattern(seed, n int) []byte {
	p := make([]byte, 0, n+8)
	for len(p) < n {
		p = fmt.Appendf(p, "%x.%d|", len(p), seed)
	}
	return p[:n]
}

// Sizes about those of the buffers between.
var sizes = rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 300),
	rapid.SampledFrom([]int{1, 8<<10 - 1, 8 << 10, 8<<10 + 1, 16<<10 - 32, 16 << 10, 32<<10 - 18, 32<<10 - 1, 32 << 10, 32<<10 + 1,
		64<<10 - 1, 64 << 10, 64<<10 + 1, 200 << 10}))

func drawMessage(t *rapid.T, i int, guard bool) *message {
	m := &message{minor: 1, path: fmt.Sprintf("/%d", i)}
	m.method = rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "M-SEARCH"}).Draw(t, "method")
	m.path += rapid.SampledFrom([]string{"", "/a%2Fb", "//;x", "?q=%zz&x", "/../|"}).Draw(t, "path")
	m.want = rapid.SampledFrom([]string{"length", "length", "chunked", "close", "204", "304"}).Draw(t, "want")
	m.hint = rapid.Bool().Draw(t, "hint")
	m.who = "alice"
	switch rapid.SampledFrom([]string{"alice", "alice", "", "baseline"}).Draw(t, "tag") {
	case "alice":
		m.tag = "X-Lane-TAG: dev-alice\r\nBaggage: k=v,lane=dev-alice\r\n"
	case "baseline":
		m.tag, m.who = "x-lane-tag: baseline\r\n", "base"
	default:
		if guard {
			m.who = "base"
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "fields") {
		m.fields = append(m.fields, rapid.SampledFrom([]string{"x-b:  two  ", "X-A:1", "x-a: 2", "Cookie: a=b; c=d", "Accept: */*",
			"X-Long: " + strings.Repeat("x", 9000), "X-Bytes: \xe4\xbd\xa0"}).Draw(t, "field"))
	}
	if rapid.Bool().Draw(t, "hop") {
		m.hop = []string{"connection: x-gone, keep-alive", "X-Gone: 1", "Keep-Alive: timeout=5", "Proxy-Authorization: secret"}
	}
	if m.method != "GET" && m.method != "HEAD" {
		m.body = pattern(i, sizes.Draw(t, "size"))
		m.chunked = rapid.Bool().Draw(t, "chunked")
		m.expect = rapid.IntRange(0, 4).Draw(t, "expect") == 0 && len(m.body) > 0
	}
	if m.chunked {
		m.chunks = rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 15, 16, 17, 1000, 8 << 10, 32<<10 - 1, 100 << 10}), 1, 5).Draw(t, "chunks")
		m.extension = rapid.SampledFrom([]string{"", ";a", ` ; a="b"`}).Draw(t, "extension")
		m.trailer = rapid.SampledFrom([]string{"", "X-Sum: 1\r\n", "x-sum:1\r\nX-More:  2\r\n"}).Draw(t, "trailer")
	} else if m.want == "length" && !m.expect && rapid.IntRange(0, 4).Draw(t, "old") == 0 {
		m.minor = 0
		m.hop = []string{"Connection: Keep-Alive"}
	}
	return m
}

// text is the message as it is sent, its head and its body.
func (m *message) text(before string) (head, body []byte) {
	head = fmt.Appendf(head, "%s %s%s HTTP/1.%d\r\nHost: svc\r\nX-Want: %s\r\n", m.method, before, m.path, m.minor, m.want)
	if m.hint {
		head = append(head, "X-Hint: 1\r\n"...)
	}
	head = append(head, m.tag...)
	for _, f := range append(m.fields, m.hop...) {
		head = append(append(head, f...), "\r\n"...)
	}
	if m.expect {
		head = append(head, "Expect: 100-continue\r\n"...)
	}
	if !m.chunked {
		if len(m.body) > 0 {
			head = fmt.Appendf(head, "Content-Length: %d\r\n", len(m.body))
		}
		return append(head, "\r\n"...), m.body
	}
	head = append(head, "Transfer-Encoding: chunked\r\n\r\n"...)
	rest := m.body
	for i := 0; len(rest) > 0; i++ {
		n := min(m.chunks[i%len(m.chunks)], len(rest))
		if i > 50 {
			n = len(rest)
		}
		body = fmt.Appendf(body, "%X%s\r\n%s\r\n", n, m.extension, rest[:n])
		rest = rest[n:]
	}
	return head, append(body, "0\r\n"+m.trailer+"\r\n"...)
}

// arrives is what the server has to say that it got, lane's own fields apart.
func (m *message) arrives() string {
	head, _ := m.text("")
	var b strings.Builder
	for line := range strings.Lines(strings.Replace(string(head), "HTTP/1.0", "HTTP/1.1", 1)) {
		hop := strings.HasPrefix(strings.ToLower(line), "x-lane-") || strings.HasPrefix(strings.ToLower(line), "baggage:")
		for _, h := range m.hop {
			hop = hop || strings.HasPrefix(line, h)
		}
		if !hop {
			b.WriteString(line)
		}
	}
	return b.String() + string(m.body) + "\r\n" + m.trailer
}

// mirror is a server that answers each request with what it got, lane's own fields
// apart, in the way that the request asks for.
func mirror(t *testing.T, who string) string {
	return scripted(t, func(n int, conn net.Conn, br *bufio.Reader) {
		for {
			head := readText(br)
			if head == "" {
				return
			}
			want, hint, chunked, length := "", false, false, 0
			var got strings.Builder
			for line := range strings.Lines(head) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				switch name = strings.ToLower(name); {
				case strings.HasPrefix(name, "x-lane-"), name == "baggage":
					continue
				case name == "x-want":
					want = value
				case name == "x-hint":
					hint = true
				case name == "content-length":
					length, _ = strconv.Atoi(value)
				case name == "transfer-encoding":
					chunked = true
				case name == "expect" && n%8 < 7: // some servers never say it
					fmt.Fprint(conn, "HTTP/1.1 100 Continue\r\n\r\n")
				}
				got.WriteString(line)
			}
			body, trailer, err := readBody(br, chunked, length)
			if err != nil {
				fmt.Fprintf(conn, "HTTP/1.1 500 %v\r\nContent-Length: 0\r\n\r\n", err)
				return
			}
			got.Write(body)
			got.WriteString("\r\n" + trailer)
			if hint {
				fmt.Fprint(conn, "HTTP/1.1 103 Early Hints\r\nX-H: 1\r\n\r\n")
			}
			if !answerAs(conn, who, want, strings.HasPrefix(head, "HEAD "), got.String()) {
				return
			}
		}
	})
}

// readBody reads a body and checks its framing.
func readBody(br *bufio.Reader, chunked bool, length int) (body []byte, trailer string, err error) {
	if !chunked {
		whole := make([]byte, length)
		_, err = io.ReadFull(br, whole)
		return whole, "", err
	}
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return nil, "", err
		}
		n, err := strconv.ParseUint(strings.TrimSuffix(line, "\r\n"), 16, 32)
		if err != nil {
			return nil, "", err
		}
		if n == 0 {
			break
		}
		piece := make([]byte, n+2)
		if _, err := io.ReadFull(br, piece); err != nil || !bytes.HasSuffix(piece, []byte("\r\n")) {
			return nil, "", errors.Join(err, errors.New("a chunk has no end"))
		}
		body = append(body, piece[:n]...)
	}
	for {
		line, err := br.ReadString('\n')
		if err != nil || line == "\r\n" {
			return body, trailer, err
		}
		trailer += line
	}
}

// answerAs writes a response; false if the connection ends with it.
func answerAs(conn net.Conn, who, want string, head bool, text string) (more bool) {
	out := "HTTP/1.1 200 OK\r\nx-WHO: " + who + "\r\n"
	switch want {
	case "204", "304":
		_, err := fmt.Fprintf(conn, "HTTP/1.1 %s \r\nx-WHO: %s\r\n\r\n", want, who)
		return err == nil
	case "length":
		out += fmt.Sprintf("Content-Length: %d\r\n\r\n", len(text))
		if !head {
			out += text
		}
	case "close":
		out += "Connection: close\r\n\r\n"
		if !head {
			out += text
		}
	case "chunked":
		out += "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
		for rest := text; !head && rest != ""; {
			n := min(len(rest), 1+len(rest)/3)
			out += fmt.Sprintf("%x;ext\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		if !head {
			out += "0\r\nX-Sum: 1\r\n\r\n"
		}
	}
	_, err := io.WriteString(conn, out)
	return err == nil && want != "close"
}

// What arrives is what was sent, and what comes back is what was answered,
// whatever stands beside it on the connection and however it is cut.
func TestRandomConversations(t *testing.T) {
	alice, base := mirror(t, "alice"), mirror(t, "base")
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", alice, "dev-alice"), instance("b", base, "")))
	ways := threeWays(t, e, alice)
	rapid.Check(t, func(t *rapid.T) {
		at := ways[rapid.IntRange(0, len(ways)-1).Draw(t, "way")]
		var all []*message
		for i := range rapid.IntRange(1, 8).Draw(t, "requests") {
			all = append(all, drawMessage(t, i, at.name == "the guard"))
		}
		cuts := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 17, 1000, 8 << 10, 50 << 10}), 0, 20).Draw(t, "cuts")
		before := e.log.Last()
		if err := converse(at.addr, at.before, at.line, all, cuts); err != nil {
			t.Fatal(err)
		}
		for i, m := range all {
			ex := e.exchange(before + uint64(i) + 1)
			size := int64(0)
			if m.method != "HEAD" && m.want != "204" && m.want != "304" {
				size = int64(len(m.arrives()))
			}
			if ex.Method != m.method || ex.ReqSize != int64(len(m.body)) || ex.ResSize != size || ex.Err != "" {
				t.Fatalf("%d: recorded %+v, want %d and %d bytes", i, ex, len(m.body), size)
			}
		}
		if n := e.log.Last() - before; n != uint64(len(all)) {
			t.Fatalf("%d exchanges for %d requests", n, len(all))
		}
	})
}

// converse sends all messages without waiting, but where one says so, and checks
// each answer.
func converse(addr, before, line string, all []*message, cuts []int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testLimit))
	br := bufio.NewReader(conn)
	if before != "" {
		fmt.Fprint(conn, before)
		if head := readText(br); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
			return fmt.Errorf("CONNECT: %q", head)
		}
	}
	goOn := make([]chan struct{}, len(all))
	for i := range goOn {
		goOn[i] = make(chan struct{}, 1)
	}
	ended, sent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		var held []byte
		for i, m := range all {
			head, body := m.text(line)
			held = append(held, head...)
			if m.expect {
				cuts = cutUp(conn, held, cuts)
				held = nil
				select {
				case <-goOn[i]:
				case <-ended:
					return
				}
			}
			held = append(held, body...)
		}
		cutUp(conn, held, cuts)
	}()
	defer func() { conn.Close(); <-sent }()
	defer close(ended)
	for i, m := range all {
		if err := m.check(br, goOn[i]); err != nil {
			return fmt.Errorf("%d, %s %s: %w", i, m.method, m.path, err)
		}
	}
	return nil
}

// cutUp writes in pieces, and gives the sizes that were not used. What cannot be
// written the reader sees.
func cutUp(conn net.Conn, p []byte, cuts []int) []int {
	for len(p) > 0 {
		n := len(p)
		if len(cuts) > 0 {
			n, cuts = min(n, cuts[0]), cuts[1:]
		}
		if _, err := conn.Write(p[:n]); err != nil {
			return nil
		}
		p = p[n:]
	}
	return cuts
}

// check reads the answer to a message.
func (m *message) check(br *bufio.Reader, goOn chan struct{}) error {
	hints := 0
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: m.method})
		if err != nil {
			return err
		}
		switch resp.StatusCode {
		case 100:
			goOn <- struct{}{}
			continue
		case 103:
			hints++
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		want := m.arrives()
		status, trailer := 200, ""
		switch {
		case m.want == "204" || m.want == "304":
			status, _ = strconv.Atoi(m.want)
			want = ""
		case m.method == "HEAD":
			want = ""
		case m.want == "chunked":
			trailer = "1"
		}
		switch {
		case err != nil:
			return err
		case resp.StatusCode != status || resp.Header.Get("X-Who") != m.who || resp.Close:
			return fmt.Errorf("%s %v", resp.Status, resp.Header)
		case string(body) != want:
			return fmt.Errorf("came back %d bytes, want %d:\n%.2000q\nwant\n%.2000q", len(body), len(want), body, want)
		case resp.Trailer.Get("X-Sum") != trailer:
			return fmt.Errorf("trailer %v", resp.Trailer)
		case m.hint != (hints == 1) && m.minor > 0:
			return fmt.Errorf("%d hints", hints)
		}
		return nil
	}
}
