package proxy

import (
	"encoding/binary"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// frame is a frame of RFC 6455 as a client sends it, masked.
func frame(fin bool, opcode byte, payload string) []byte {
	b := []byte{opcode}
	if fin {
		b[0] |= 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := []byte("mask")
	b = append(b, mask...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return b
}

// talk opens httpbin's echo, says what is given, and hears what comes until the
// server has ended the connection.
func (w binWay) talk(t *testing.T, path string, say [][]byte) (binAnswer, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.scheme+"://httpbin"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Protocol": {"a, b"}}
	if w.add[0] != "" {
		req.Header.Set(w.add[0], w.add[1])
	}
	resp, err := w.client.Transport.RoundTrip(req) // a Client with a timeout cannot write
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	defer resp.Body.Close()
	if d := resp.Header.Get("X-Lane-Decision"); (w.name != "direct") != strings.HasPrefix(d, "LANE_MATCH") {
		t.Errorf("%s: decision %q", w.name, d)
	}
	for k := range resp.Header {
		if strings.HasPrefix(k, "X-Lane-") || k == "Connection" {
			delete(resp.Header, k)
		}
	}
	a := binAnswer{Status: resp.Status, Proto: resp.Proto, Header: resp.Header}
	conn, ok := resp.Body.(io.ReadWriter)
	if !ok {
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		return a, string(b)
	}
	watch := time.AfterFunc(20*time.Second, func() { resp.Body.Close() })
	defer watch.Stop()
	said := make(chan error, 1)
	go func() {
		for _, f := range say {
			if _, err := conn.Write(f); err != nil {
				said <- err
				return
			}
		}
		said <- nil
	}()
	heard, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("%s: %v", w.name, err)
	}
	if err := <-said; err != nil {
		t.Errorf("%s: %v", w.name, err)
	}
	return a, string(heard)
}

// A WebSocket is the same to the byte, the end and who makes it included.
func TestHTTPBinWebSocket(t *testing.T) {
	_, tls := newTLSBin(t, false)
	for _, ways := range [][]binWay{newBin(t).ways(false), tls} {
		sameTalk(t, ways)
	}
}

func sameTalk(t *testing.T, ways []binWay) {
	t.Helper()
	for _, c := range []struct {
		path string
		say  [][]byte
		hear string // among all else
	}{
		{"/websocket/echo", [][]byte{frame(true, 1, "hello ü"), frame(true, 2, strings.Repeat("\x00\xff", 50000)), frame(false, 1, "in "), frame(true, 9, "ping"),
			frame(true, 0, "two"), frame(true, 8, "\x03\xe8bye")}, "in two"},
		{"/websocket/echo?max_message_size=4&max_fragment_size=4", [][]byte{frame(true, 1, "four"), frame(true, 1, "fives")}, "four"}, // the server ends it
		{"/websocket/echo?max_fragment_size=none", nil, "invalid"},                                                                    // and here it refuses
	} {
		want, heard := ways[0].talk(t, c.path, c.say)
		if refused := c.say == nil; !strings.Contains(heard, c.hear) || refused != strings.HasPrefix(want.Status, "400") || refused == strings.HasPrefix(want.Status, "101") {
			t.Errorf("%s: direct: %s %q", c.path, want.Status, heard)
		}
		for _, w := range ways[1:] {
			got, also := w.talk(t, c.path, slices.Clone(c.say))
			for _, h := range []http.Header{want.Header, got.Header} {
				blurIn(h, "Date", `.+`)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (%s): -direct +lane\n%s", c.path, w.name, diff)
			}
			if heard != also {
				t.Errorf("%s (%s): %d bytes, directly %d", c.path, w.name, len(also), len(heard))
			}
		}
	}
}
