package tui

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"lane/pkg/traffic"
)

// frame is a gRPC message on the wire.
func frame(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg))), msg...)
}

func TestBodyLines(t *testing.T) {
	msg, err := proto.Marshal(&structpb.Struct{Fields: map[string]*structpb.Value{"name": structpb.NewStringValue("Ann")}})
	if err != nil {
		t.Fatal(err)
	}
	two := append(frame(msg), frame(msg)...)
	compressed := frame([]byte("xyz"))
	compressed[0] = 1
	for _, c := range []struct {
		name, mime, coding string
		body               traffic.Body
		n                  int64
		want               []string
	}{
		{"JSON", "application/json", "", traffic.Body{Bytes: []byte(`{"a":[1],"token":"x"}`)}, 21, []string{"Body, 21 B:", "{", `  "a": [`, "    1", "  ],", `  "token": "***"`, "}"}},
		{"JSON that was cut", "application/json", "", traffic.Body{Bytes: []byte(`{"a":[1,`), Cut: true}, 900, []string{"Body, 900 B, the first 8 B were kept:", `{"a":[1,`}},
		{"text", "text/plain", "", traffic.Body{Bytes: []byte("a\n\n  b\tc\n")}, 9, []string{"Body, 9 B:", "a", "", "  b    c"}},
		{"a colored log", "text/plain", "", traffic.Body{Bytes: []byte("\x1b[31mno\x1b[0m\npassword=x\n")}, 23, []string{"Body, 23 B:", `\x1b[31mno\x1b[0m`, "password=***"}},
		{"form", "application/x-www-form-urlencoded", "", traffic.Body{Bytes: []byte("a=1&pwd=x")}, 9, []string{"Body, 9 B:", "a=1", "pwd=***"}},
		{"binary", "image/png", "", traffic.Body{Bytes: []byte("\x89PNG\r\n\x1a\n\x00\x01")}, 10, []string{"Body, 10 B:",
			"000000  89 50 4e 47 0d 0a 1a 0a 00 01                    .PNG......"}},
		{"gRPC", "application/grpc", "", traffic.Body{Bytes: two}, int64(len(two)), []string{"Body, 40 B:",
			"Message 1, 15 B", "  1: {", `  1: "name"`, "  2: {", `  3: "Ann"`, "  }", "  }", "Message 2, 15 B", "  1: {", `  1: "name"`, "  2: {", `  3: "Ann"`, "  }", "  }"}},
		{"gRPC that was cut", "application/grpc+proto", "", traffic.Body{Bytes: two[:30], Cut: true}, 40, []string{"Body, 40 B, the first 30 B were kept:",
			"Message 1, 15 B", "  1: {", `  1: "name"`, "  2: {", `  3: "Ann"`, "  }", "  }", "Message 2, 15 B", "000000  0a 0d 0a 04 6e                                   ....n", "  (cut)"}},
		{"compressed gRPC", "application/grpc", "", traffic.Body{Bytes: compressed}, 8, []string{"Body, 8 B:", "Message 1, 3 B, compressed", "000000  78 79 7a                                         xyz"}},
		{"no frame at all", "application/grpc", "", traffic.Body{Bytes: []byte("abc")}, 3, []string{"Body, 3 B:", "then 3 B of a frame's head"}},
		{"another encoding", "application/json", "compress", traffic.Body{Bytes: []byte("\x1f\x9d")}, 2, []string{"Body, 2 B: not shown, it is compressed (compress), and cannot be read to mask", "its secrets"}},
		{"a wrong encoding", "application/json", "br", traffic.Body{Bytes: []byte("[1]")}, 3, []string{"Body, 3 B:", "[", "  1", "]"}},
	} {
		var got []string
		h := traffic.HeadOf(http.Header{"Content-Type": {c.mime}, "Content-Encoding": {c.coding}})
		for _, l := range bodyLines(&c.body, c.n, h, read{}, text{}, 80) {
			got = append(got, strings.TrimRight(l.text, " "))
		}
		squeeze := func(lines []string) string {
			var out []string
			for _, l := range lines { // how deep a message is indented is not the point
				if strings.HasPrefix(c.mime, "application/grpc") && strings.HasPrefix(l, "   ") {
					l = "  " + strings.TrimLeft(l, " ")
				}
				out = append(out, l)
			}
			return strings.Join(out, "\n")
		}
		if squeeze(got) != squeeze(c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// What a body is made of costs what can be seen of it.
func TestBodyLinesAreBounded(t *testing.T) {
	for _, b := range [][]byte{bytes.Repeat([]byte("\n"), traffic.MaxBody), bytes.Repeat([]byte("\x00"), traffic.MaxBody), bytes.Repeat([]byte("x"), traffic.MaxBody),
		bytes.Repeat([]byte("[1,"), traffic.MaxBody/3), bytes.Repeat([]byte("\x0a\x02"), traffic.MaxBody/2)} {
		for _, mime := range []string{"text/plain", "application/grpc"} {
			if n := len(bodyLines(&traffic.Body{Bytes: b}, 1, traffic.HeadOf(http.Header{"Content-Type": {mime}}), read{}, text{}, 80)); n > 14_000 {
				t.Errorf("%d lines of %.3q as %s", n, b, mime)
			}
		}
	}
}
