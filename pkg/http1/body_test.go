package http1

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

func newBufio(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }

func TestBody(t *testing.T) {
	for _, tt := range []struct {
		framing           Framing
		length            int64
		text, body, after string
	}{
		{NoBody, 0, "next", "", "next"},
		{ByLength, 4, "bodynext", "body", "next"},
		{ByChunks, 0, "4\r\nbody\r\n0\r\n\r\nnext", "body", "next"},
		{ByChunks, 0, "2 \r\nbo\r\n2\t;a\r\ndy\r\n0\r\n\r\nnext", "body", "next"},
		{ByChunks, 0, "2\r\nbo\r\n002;a=\"b\"\r\ndy\r\n0;x\r\n\r\nnext", "body", "next"},
		{ByChunks, 0, "A\r\n0123456789\r\n0\r\nX-A: 1\r\nx-b:2\r\n\r\nnext", "0123456789", "next"},
		{ByClose, 0, "body", "body", ""},
	} {
		for name, src := range map[string]io.Reader{"at once": strings.NewReader(tt.text), "by bytes": iotest.OneByteReader(strings.NewReader(tt.text))} {
			r := NewReader(src)
			var b Body
			b.Reset(r, tt.framing, tt.length)
			got, err := io.ReadAll(&b)
			if err != nil || string(got) != tt.body || !b.Ended() {
				t.Errorf("%q %s: %q, %v", tt.text, name, got, err)
			}
			if n, err := b.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("%q %s: after the end %d, %v", tt.text, name, n, err)
			}
			if rest, _ := io.ReadAll(r); string(rest) != tt.after {
				t.Errorf("%q %s: left %q", tt.text, name, rest)
			}
		}
	}
	var b Body
	b.Reset(NewReader(strings.NewReader("0\r\nX-A: 1\r\nx-b:2\r\n\r\n")), ByChunks, 0)
	if _, err := io.ReadAll(&b); err != nil || len(b.Trailer) != 2 || b.Trailer[1].Line != "x-b:2" {
		t.Errorf("%v %v", err, b.Trailer)
	}
}

func TestBodyRefuses(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, text := range []string{
		"x\r\n", "-1\r\n", "+1\r\na\r\n0\r\n\r\n", "0x1\r\na\r\n0\r\n\r\n", "\r\n", "1\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", "1\r\na\n0\r\n\r\n",
		"fffffffffffffffff\r\n", "1" + strings.Repeat("0", 20) + "\r\n", "1;" + long + "\r\na\r\n0\r\n\r\n", "1;\x00\r\na\r\n0\r\n\r\n", "1x\r\na\r\n0\r\n\r\n", "1 1\r\na\r\n0\r\n\r\n", "1\t\r;\r\na\r\n0\r\n\r\n",
		"0\r\nno colon\r\n\r\n", "0\r\n X: a\r\n\r\n", "0\r\nX : a\r\n\r\n", "0\r\n\n", "0\r\n" + strings.Repeat("X: "+long+"\r\n", 20) + "\r\n",
	} {
		var b Body
		b.Reset(NewReader(strings.NewReader(text)), ByChunks, 0)
		_, err := io.ReadAll(&b)
		var wrong *Error
		if !errors.As(err, &wrong) || b.Ended() {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	for _, tt := range []struct {
		framing Framing
		length  int64
		text    string
	}{{ByLength, 5, "four"}, {ByChunks, 0, "5\r\nfour"}, {ByChunks, 0, "4\r\nfour"}, {ByChunks, 0, "4\r\nfour\r\n0\r\n"}, {ByChunks, 0, ""}, {ByChunks, 0, "4"}} {
		var b Body
		b.Reset(NewReader(strings.NewReader(tt.text)), tt.framing, tt.length)
		if _, err := io.ReadAll(&b); !errors.Is(err, io.ErrUnexpectedEOF) || b.Ended() {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}

// pieces gives one piece for each read, and a deadline's error between them.
type pieces struct {
	list []string
	late bool
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.late = !p.late; p.late {
		return 0, os.ErrDeadlineExceeded
	}
	if len(p.list) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.list[0])
	if p.list[0] = p.list[0][n:]; p.list[0] == "" {
		p.list = p.list[1:]
	}
	return n, nil
}

// A deadline loses nothing, wherever it falls.
func TestDeadlinesLoseNothing(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\nA: b\r\n\r\n3;x\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\nnext"
	for size := 1; size < len(text); size++ {
		src := &pieces{}
		for at := 0; at < len(text); at += size {
			src.list = append(src.list, text[at:min(at+size, len(text))])
		}
		r := NewReader(src)
		var head string
		for {
			var err error
			if head, err = r.Head(1000, nil); err == nil {
				break
			} else if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(size, err)
			}
		}
		var b Body
		b.Reset(r, ByChunks, 0)
		var body []byte
		buf := make([]byte, 2)
		for !b.Ended() {
			n, err := b.Read(buf)
			body = append(body, buf[:n]...)
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, io.EOF) {
				t.Fatal(size, err)
			}
		}
		if head != text[:25] || string(body) != "abcde" || len(b.Trailer) != 1 {
			t.Errorf("%d: %q %q %v", size, head, body, b.Trailer)
		}
	}
}

// Ready says exactly when Read does not have to wait.
func TestReady(t *testing.T) {
	const text = "3\r\nabc\r\n1;x\r\nd\r\n0\r\nT: 1\r\n\r\n"
	for have := 0; have <= len(text); have++ {
		r := NewReader(io.MultiReader(strings.NewReader(text[:have]), never{t}))
		if have > 0 {
			if err := r.Fill(100); err != nil {
				t.Fatal(err)
			}
		}
		var b Body
		b.Reset(r, ByChunks, 0)
		for b.Ready() {
			if _, err := b.Read(make([]byte, 100)); err != nil {
				break
			}
		}
		if b.Ended() != (have == len(text)) {
			t.Errorf("%d bytes: ended %v", have, b.Ended())
		}
	}
}

// never fails a test that reads from it.
type never struct{ t *testing.T }

func (n never) Read([]byte) (int, error) {
	n.t.Error("read from the connection")
	return 0, io.EOF
}

func FuzzBody(f *testing.F) {
	f.Add("4\r\nbody\r\n0\r\n\r\n")
	f.Add("2;a\r\nbo\r\n2\r\ndy\r\n0\r\nX: y\r\n\r\n")
	f.Add("0\r\n\r\nrest")
	f.Fuzz(func(t *testing.T, text string) {
		read := func(src io.Reader) (string, error) {
			var b Body
			b.Reset(NewReader(src), ByChunks, 0)
			body, err := io.ReadAll(&b)
			if (err == nil) != b.Ended() {
				t.Fatalf("%q: %v, ended %v", text, err, b.Ended())
			}
			return string(body), err
		}
		one, err1 := read(strings.NewReader(text))
		two, err2 := read(iotest.OneByteReader(strings.NewReader(text)))
		if one != two && err1 == nil || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q: %q %v, by bytes %q %v", text, one, err1, two, err2)
		}
	})
}
