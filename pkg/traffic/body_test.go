package traffic

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
)

func TestBodyIsBounded(t *testing.T) {
	var b Body
	for range 100 {
		b.Keep(make([]byte, 1000))
	}
	if len(b.Bytes) != MaxBody || !b.Cut {
		t.Errorf("%d bytes, cut %v", len(b.Bytes), b.Cut)
	}
	var whole Body
	whole.Keep(make([]byte, MaxBody))
	if whole.Cut {
		t.Error("a body that fits is cut")
	}
}

// TestLogBoundsBodies: the newest stay, and the rows of the others.
func TestLogBoundsBodies(t *testing.T) {
	const rows = 2000 // of 64 KiB: 125 MiB
	l := NewLog(5000)
	body := bytes.Repeat([]byte("x"), MaxBody)
	for range rows {
		l.Put(Exchange{ResBody: &Body{Bytes: body}})
	}
	all, _ := l.Since(0, 0)
	kept, first := 0, 0
	for i := range all {
		if all[i].ResBody != nil {
			if kept++; kept == 1 {
				first = i
			}
		}
	}
	if len(all) != rows || kept != MaxBodies/MaxBody || first != rows-kept {
		t.Errorf("%d rows, %d bodies from %d on", len(all), kept, first)
	}
	if e, ok := l.Get(rows); !ok || e.ResBody == nil {
		t.Error("the newest has no body")
	}
	if e, ok := l.Get(1); !ok || e.ResBody != nil {
		t.Error("the oldest has one")
	}
	for _, seq := range []uint64{0, rows + 1, 1 << 60} {
		if _, ok := l.Get(seq); ok {
			t.Errorf("there is a row %d", seq)
		}
	}
	// Rows that leave the ring take their bodies with them.
	small := NewLog(3)
	for range 100 {
		small.Put(Exchange{ReqBody: &Body{Bytes: body}, ResBody: &Body{Bytes: body}})
	}
	if small.bodies != 6*MaxBody {
		t.Errorf("%d bytes are counted", small.bodies)
	}
	for range 3 {
		small.Put(Exchange{})
	}
	if small.bodies != 0 {
		t.Errorf("%d bytes are counted when all are gone", small.bodies)
	}
}

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		mime, coding, body string
		want               BodyKind
	}{
		{"application/json; charset=utf-8", "", `{}`, BodyJSON}, {"application/problem+json", "", `{}`, BodyJSON},
		{"text/plain", "", "[1]", BodyJSON}, {"", "", " {", BodyJSON}, {"text/html", "", "<a>", BodyText}, {"", "", "", BodyText},
		{"application/x-www-form-urlencoded", "", "a=b", BodyForm}, {"application/json", "gzip", "{}", BodyBinary},
		{"application/json", "", "\x00", BodyBinary}, {"text/plain", "", "a\x1b[2J", BodyText}, {"text/plain", "", "a\x1b", BodyText}, {"text/plain", "", "a\x1b\x01", BodyBinary},
		{"text/plain", "", "\a" + strings.Repeat("x", 64), BodyText}, {"text/plain", "", "\a" + strings.Repeat("x", 62), BodyBinary}, {"text/plain", "", "\x00" + strings.Repeat("x", 99), BodyBinary}, {"text/plain", "", "caf\xc3", BodyText},
		{"text/plain", "", "\xff\xfea", BodyBinary}, {"application/grpc", "", "\x00", BodyGRPC}, {"application/grpc+proto", "", "", BodyGRPC},
		{"application/grpc-web", "", "a", BodyText}, {";;", "", "a", BodyText},
	} {
		if got := KindOf(c.mime, c.coding, []byte(c.body)); got != c.want {
			t.Errorf("%q %q %q: %d, want %d", c.mime, c.coding, c.body, got, c.want)
		}
	}
}

func TestMaskBody(t *testing.T) {
	for _, c := range []struct {
		kind     BodyKind
		in, want string
	}{
		{BodyForm, "user=a&password=b&x=1", "user=a&password=***&x=1"},
		{BodyJSON, `{"a":1,"apiKey" : "x\"y", "card":{"token":17}}`, `{"a":1,"apiKey" : "***", "card":{"token":"***"}}`},
		{BodyJSON, `{"password":"cut off`, `{"password":"***"`},
		{BodyJSON, `{"key":null,"keys":["a"]}`, `{"key":null,"keys":"***"}`},
		{BodyText, `log: "secret": "s", rest`, `log: "secret": "***", rest`},
		{BodyBinary, "\x00\"token\":\"a\"", "\x00\"token\":\"a\""},
	} {
		if got := string(MaskBody(c.kind, []byte(c.in))); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestDecoded(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	fmt.Fprint(w, strings.Repeat("a", 3<<20))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if out, ok := Decoded("gzip", z.Bytes()); !ok || len(out) != decodedMost {
		t.Errorf("%d bytes, %v", len(out), ok)
	}
	if out, ok := Decoded("gzip", z.Bytes()[:z.Len()/2]); !ok || len(out) == 0 {
		t.Error("of a body that was cut nothing is seen")
	}
	for _, coding := range []string{"gzip", "deflate", "br", "x"} {
		if _, ok := Decoded(coding, []byte("no")); ok {
			t.Errorf("%s: decoded", coding)
		}
	}
	if out, ok := Decoded("", []byte("a")); !ok || string(out) != "a" {
		t.Error("a plain body is not itself")
	}
}
