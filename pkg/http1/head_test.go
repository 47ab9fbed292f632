package http1

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

const reqLine = "GET /a HTTP/1.1\r\nHost: svc\r\n"

// Requests that are refused, and why; each has a twin below that is not.
var malformed = map[string]int{
	reqLine + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n":          400,
	reqLine + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n":          400,
	reqLine + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n":                   400,
	reqLine + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n":                   400,
	reqLine + "Content-Length: 5, 5\r\n\r\n":                                     400,
	reqLine + "Content-Length: +5\r\n\r\n":                                       400,
	reqLine + "Content-Length: -1\r\n\r\n":                                       400,
	reqLine + "Content-Length: 0x5\r\n\r\n":                                      400,
	reqLine + "Content-Length: \r\n\r\n":                                         400,
	reqLine + "Content-Length: 9999999999999999999\r\n\r\n":                      400,
	reqLine + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
	reqLine + "Transfer-Encoding: gzip, chunked\r\n\r\n":                         501,
	reqLine + "Transfer-Encoding: xchunked\r\n\r\n":                              501,
	reqLine + "Transfer-Encoding: \vchunked\r\n\r\n":                             400,
	reqLine + "Transfer-Encoding : chunked\r\n\r\n":                              400,
	"GET /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n":                      400,
	reqLine + "X: a\n\r\n":                                                       400,
	"GET /a HTTP/1.1\nHost: svc\n\n":                                             400,
	reqLine + "X: a\r\n b\r\n\r\n":                                               400,
	reqLine + " X: a\r\n\r\n":                                                    400,
	reqLine + "X : a\r\n\r\n":                                                    400,
	reqLine + "X\t: a\r\n\r\n":                                                   400,
	reqLine + ": a\r\n\r\n":                                                      400,
	reqLine + "no colon\r\n\r\n":                                                 400,
	reqLine + "X: a\x00b\r\n\r\n":                                                400,
	reqLine + "X\x00: a\r\n\r\n":                                                 400,
	reqLine + "X: a\rb\r\n\r\n":                                                  400,
	reqLine + "X: a\x7f\r\n\r\n":                                                 400,
	reqLine + "Host: other\r\n\r\n":                                              400,
	"GET /a HTTP/1.1\r\n\r\n":                                                    400,
	"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n":                                       400,
	"GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n":                                       400,
	"GET  /a HTTP/1.1\r\nHost: svc\r\n\r\n":                                      400,
	"GET /a  HTTP/1.1\r\nHost: svc\r\n\r\n":                                      400,
	"GET /a b HTTP/1.1\r\nHost: svc\r\n\r\n":                                     400,
	"GET /a\x00 HTTP/1.1\r\nHost: svc\r\n\r\n":                                   400,
	"GET\t/a HTTP/1.1\r\nHost: svc\r\n\r\n":                                      400,
	"G(T /a HTTP/1.1\r\nHost: svc\r\n\r\n":                                       400,
	" GET /a HTTP/1.1\r\nHost: svc\r\n\r\n":                                      400,
	"GET /a\r\nHost: svc\r\n\r\n":                                                400,
	"GET /a http/1.1\r\nHost: svc\r\n\r\n":                                       400,
	"CONNECT /a HTTP/1.1\r\nHost: svc\r\n\r\n":                                   400,
	"CONNECT * HTTP/1.1\r\nHost: svc\r\n\r\n":                                    400,
	"CONNECT svc:80/a HTTP/1.1\r\nHost: svc\r\n\r\n":                             400,
	"CONNECT svc:80?a HTTP/1.1\r\nHost: svc\r\n\r\n":                             400,
	"CONNECT http://svc/ HTTP/1.1\r\nHost: svc\r\n\r\n":                          400,
	"CONNECT u@svc:80 HTTP/1.1\r\nHost: svc\r\n\r\n":                             400,
	"GET /a HTTP/1.2\r\nHost: svc\r\n\r\n":                                       505,
	"GET /a HTTP/2.0\r\nHost: svc\r\n\r\n":                                       505,
	"GET /a HTTP/1.10\r\nHost: svc\r\n\r\n":                                      400,
	reqLine + "Expect: something\r\n\r\n":                                        417,
	reqLine + strings.Repeat("a:\r\n", maxFields) + "\r\n":                       431,
	reqLine + "Connection: " + strings.Repeat("a,", maxOptions) + "a\r\n\r\n":    431,
}

func parse(text string) (Request, error) {
	var r Request
	head, err := NewReader(strings.NewReader(text)).Head(64<<10, nil)
	if err == nil {
		err = ParseRequest(head, &r)
	}
	return r, err
}

func TestParseRequestRefuses(t *testing.T) {
	for text, status := range malformed {
		_, err := parse(text)
		var wrong *Error
		if !errors.As(err, &wrong) || wrong.Status != status || wrong.Why == "" {
			t.Errorf("%.200q: %v, want %d", text, err, status)
		}
	}
}

func TestParseRequestTakes(t *testing.T) {
	for _, tt := range []struct {
		text    string
		framing Framing
		length  int64
	}{
		{reqLine + "\r\n", NoBody, 0},
		{"\r\n" + reqLine + "\r\n", NoBody, 0},
		{reqLine + strings.Repeat("a:\r\n", maxFields-1) + "\r\n", NoBody, 0},
		{reqLine + "Connection: " + strings.Repeat("a,", maxOptions-1) + "a\r\n\r\n", NoBody, 0},
		{reqLine + "Content-Length: 0\r\n\r\n", NoBody, 0},
		{reqLine + "content-length:5\r\n\r\n", ByLength, 5},
		{reqLine + "Content-Length: \t 5 \r\n\r\n", ByLength, 5},
		{reqLine + "Transfer-Encoding: Chunked\r\n\r\n", ByChunks, 0},
		{reqLine + "X:\r\nY: \r\nZ: a: b\r\n\r\n", NoBody, 0},
		{reqLine + "X: \xe4\xbd\xa0\ta\r\n\r\n", NoBody, 0},
		{"GET /ü?|\"<>{}`^\\ HTTP/1.1\r\nHost: svc\r\n\r\n", NoBody, 0},
		{"GET /a HTTP/1.0\r\n\r\n", NoBody, 0},
		{"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", NoBody, 0},
		{"CONNECT svc:80 HTTP/1.1\r\nHost: svc\r\n\r\n", NoBody, 0},
		{"CONNECT [::1]:80 HTTP/1.1\r\nHost: svc\r\n\r\n", NoBody, 0},
		{"M-SEARCH * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", NoBody, 0},
	} {
		r, err := parse(tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if f, n := r.Framing(); f != tt.framing || n != tt.length {
			t.Errorf("%q: framing %d, length %d", tt.text, f, n)
		}
	}
	r, err := parse("POST http://svc/a HTTP/1.1\r\nHOST: svc\r\nx-B:  two \r\nX-a: one\r\nConnection: close, X-A ,\r\nconnection: Upgrade\r\nExpect: 100-Continue\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if r.Method != "POST" || r.Target != "http://svc/a" || r.Minor != 1 || r.Host != "svc" || !r.Close || !r.Switch || r.Keep || !r.Expect {
		t.Errorf("%+v", r)
	}
	var lines []string
	for _, f := range r.Fields {
		lines = append(lines, f.Line)
	}
	if got := strings.Join(lines, "|"); got != "HOST: svc|x-B:  two |X-a: one|Connection: close, X-A ,|connection: Upgrade|Expect: 100-Continue" {
		t.Errorf("%s", got)
	}
	if r.Get("X-b") != "two" || !r.Named(&r.Fields[2]) || r.Named(&r.Fields[1]) {
		t.Errorf("%q", r.Fields)
	}
	if r, _ := parse(reqLine + "Connection: Host, Content-Length, Transfer-Encoding\r\nContent-Length: 1\r\n\r\n"); r.Named(&r.Fields[0]) || r.Named(&r.Fields[2]) {
		t.Error("the end of a message, or its host, was named away")
	}
	// Memory is used again, and nothing stays of the request before.
	if err := ParseRequest("GET / HTTP/1.0\r\n\r\n", &r); err != nil || len(r.Fields) != 0 || r.Host != "" || r.Close || r.Expect || r.Minor != 0 {
		t.Errorf("%v %+v", err, r)
	}
}

func TestParseResponse(t *testing.T) {
	for _, tt := range []struct {
		text, method string
		framing      Framing
		length       int64
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET", ByLength, 5},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", "GET", ByLength, 5},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", NoBody, 0},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", ByChunks, 0},
		{"HTTP/1.1 200\r\n\r\n", "GET", ByClose, 0},
		{"HTTP/1.0 200 \r\n\r\n", "GET", ByClose, 0},
		{"HTTP/1.1 204 No Content\r\n\r\n", "GET", NoBody, 0},
		{"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET", NoBody, 0},
		{"HTTP/1.1 103 Early Hints\r\n\r\n", "GET", NoBody, 0},
		{"HTTP/1.1 200 OK\nA: b\nContent-Length: 0\n\n", "GET", NoBody, 0},
	} {
		var r Response
		head, err := NewReader(strings.NewReader(tt.text)).Head(64<<10, nil)
		if err == nil {
			err = ParseResponse(head, &r)
		}
		if f, n := r.Framing(tt.method); err != nil || f != tt.framing || n != tt.length {
			t.Errorf("%q: %v, framing %d, length %d", tt.text, err, f, n)
		}
	}
	var r Response
	if err := ParseResponse("HTTP/1.1 404 Not  Found\r\nA: b\r\n  c\r\n\td\r\nE: f\r\n\r\n", &r); err != nil || r.Status != 404 || r.Reason != "Not  Found" ||
		len(r.Fields) != 2 || r.Fields[0].Line != "A: b c d" || r.Fields[1].Line != "E: f" {
		t.Errorf("%v %+v", err, r)
	}
	for _, text := range []string{
		"", "HTTP/1.1\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 abc OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/3.0 200 OK\r\n\r\n", "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 200 OK\r\n folded\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\x00\r\n\r\n", "HTTP/1.1 200 O\x1bK\r\n\r\n", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\rSet-Cookie: d\r\n\r\n", "HTTP/1.1 200 OK\nA: b\n \x00\n\n", "HTTP/1.1 200 OK\r\nA: b\r\n\t\x1b[2J\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("a:\r\n", maxFields+1) + "\r\n",
	} {
		if err := ParseResponse(text, &r); err == nil {
			t.Errorf("%.200q is taken: %.200q", text, r.Fields)
		}
	}
}

func TestReaderHead(t *testing.T) {
	text := reqLine + "X: " + strings.Repeat("x", 20<<10) + "\r\n\r\n"
	for name, src := range map[string]io.Reader{
		"at once": strings.NewReader(text + "rest"), "by bytes": iotest.OneByteReader(strings.NewReader(text + "rest")),
	} {
		r := NewReader(src)
		head, err := r.Head(64<<10, nil)
		if err != nil || head != text {
			t.Fatalf("%s: %d bytes, %v", name, len(head), err)
		}
		if b, err := io.ReadAll(r); string(b) != "rest" || err != nil {
			t.Errorf("%s: then %q, %v", name, b, err)
		}
		if _, err := NewReader(strings.NewReader(text)).Head(16<<10, nil); !errors.Is(err, ErrHeadTooLarge) {
			t.Errorf("%s: a limit: %v", name, err)
		}
	}
	endless := io.MultiReader(strings.NewReader(reqLine), bytes.NewReader(bytes.Repeat([]byte("X: y\r\n"), 1<<20)))
	if _, err := NewReader(endless).Head(64<<10, nil); !errors.Is(err, ErrHeadTooLarge) {
		t.Errorf("an endless head: %v", err)
	}
	if _, err := NewReader(strings.NewReader(reqLine)).Head(64<<10, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a head: %v", err)
	}
	if _, err := NewReader(strings.NewReader("")).Head(64<<10, nil); !errors.Is(err, io.EOF) {
		t.Errorf("no head: %v", err)
	}
	// What begins no head is not waited for to its end.
	for first, want := range map[string]string{
		"\x16\x03\x01": "it is TLS, where HTTP is spoken without it", "\x15\x03\x01": "it is TLS, where HTTP is spoken without it",
		"\x00": "it does not begin as HTTP does", "{": "it does not begin as HTTP does", "\r\n\x16": "it is TLS, where HTTP is spoken without it",
		"PUT": "", "\r": "", "\r\n": "",
	} {
		more := errors.New("it waits for more")
		_, err := NewReader(io.MultiReader(strings.NewReader(first), iotest.ErrReader(more))).Head(64<<10, nil)
		if got := errors.Is(err, more); got != (want == "") || !got && err.Error() != want {
			t.Errorf("%q: %v", first, err)
		}
	}
	// It waits only when it has to, and says so once.
	waits := 0
	r := NewReader(iotest.OneByteReader(strings.NewReader(reqLine + "\r\n")))
	if _, err := r.Head(64<<10, func() { waits++ }); err != nil || waits != 1 {
		t.Errorf("%v, %d waits", err, waits)
	}
}

// What is taken, net/http reads as the same request: there is nothing that only
// one of the two sees.
func FuzzParseRequest(f *testing.F) {
	for text := range malformed {
		f.Add(text)
	}
	f.Add(reqLine + "A: b\r\n\r\n")
	f.Add("\r\n" + reqLine + "\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parse(text)
		if err != nil {
			return
		}
		var lines []string
		for _, f := range r.Fields {
			if strings.ContainsAny(f.Line, "\r\n\x00") || f.Name == "" || !strings.HasPrefix(f.Line, f.Name+":") {
				t.Fatalf("field %q", f.Line)
			}
			lines = append(lines, f.Line)
		}
		again := r.Method + " " + r.Target + " HTTP/1." + string(rune('0'+r.Minor)) + "\r\n" + strings.Join(append(lines, "", ""), "\r\n")
		if !strings.HasPrefix(strings.TrimPrefix(text, "\r\n"), again) {
			t.Fatalf("%q became %q", text, again)
		}
		theirs, err := http.ReadRequest(newBufio(again))
		if err != nil {
			return // stricter still about hosts and targets
		}
		framing, length := r.Framing()
		chunked := slices.Equal(theirs.TransferEncoding, []string{"chunked"})
		if chunked != (framing == ByChunks) || framing != ByChunks && theirs.ContentLength != length {
			t.Fatalf("%q: framing %d, %d; net/http has %v, %d", text, framing, length, theirs.TransferEncoding, theirs.ContentLength)
		}
	})
}

func FuzzParseResponse(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
	f.Add("HTTP/1.1 200 OK\nA: b\n c\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		var r Response
		if ParseResponse(text, &r) != nil {
			return
		}
		if r.Status < 100 || r.Status > 999 || strings.ContainsAny(r.Reason, "\r\n\x00") {
			t.Fatalf("%+v", r)
		}
		for _, f := range r.Fields {
			if strings.ContainsAny(f.Line, "\r\n\x00") || f.Name == "" {
				t.Fatalf("field %q", f.Line)
			}
		}
	})
}

// A response whose end two programs could see in different places is passed on in
// one form, and its connection is not used again.
func TestResponseSaysItsEndOnce(t *testing.T) {
	for _, tt := range []struct {
		text   string
		fields string
		reused bool
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\ncontent-length: 5\r\nC: d\r\n\r\n", "Content-Length: 5|A: b|C: d", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "Transfer-Encoding: chunked|Content-Length: 5", false},
		{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", "Connection: keep-alive|Content-Length: 5", true},
		{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", "Connection: keep-alive|Transfer-Encoding: chunked", false},
	} {
		var r Response
		if err := ParseResponse(tt.text, &r); err != nil {
			t.Errorf("%q: %v", tt.text, err)
		}
		var lines []string
		for _, f := range r.Fields {
			lines = append(lines, f.Line)
		}
		reused := r.Minor > 0 && !r.Close || r.Minor == 0 && r.Keep
		if got := strings.Join(lines, "|"); got != tt.fields || reused != tt.reused {
			t.Errorf("%q: %s, used again: %v", tt.text, got, reused)
		}
	}
}
