package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// newBreaker is an HTTP/2 server that answers each request with a head and a gRPC
// message, and then breaks off as its path says: /x/reset/CODE resets the stream,
// /x/cut ends the connection, /x/half does so within a message, and /x/bare/CODE
// resets without a head.
func newBreaker(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				stop := context.AfterFunc(ctx, func() { conn.Close() })
				defer stop()
				breakOff(conn)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); cancel(); wg.Wait() })
	return ln.Addr().String()
}

func breakOff(conn net.Conn) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	fr := http2.NewFramer(conn, conn)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = fr.WriteSettings()
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf) // one for the connection: both sides keep its table
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		if s, ok := f.(*http2.SettingsFrame); ok && !s.IsAck() {
			_ = fr.WriteSettingsAck()
		}
		h, ok := f.(*http2.MetaHeadersFrame)
		if !ok {
			continue
		}
		_, how, _ := strings.Cut(strings.TrimPrefix(h.PseudoValue("path"), "/"), "/")
		how, arg, _ := strings.Cut(how, "/")
		code, _ := strconv.Atoi(arg)
		if how != "bare" {
			buf.Reset()
			_ = enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			for _, hf := range h.RegularFields() {
				if hf.Name == "content-type" { // it speaks what the caller speaks
					_ = enc.WriteField(hf)
				}
			}
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: h.StreamID, BlockFragment: buf.Bytes(), EndHeaders: true})
			_ = fr.WriteData(h.StreamID, false, []byte("\x00\x00\x00\x00\x05\x0a\x03one"))
		}
		switch how {
		case "half":
			_ = fr.WriteData(h.StreamID, false, []byte("\x00\x00\x00\x00\x05\x0a"))
			return
		case "cut":
			return
		}
		_ = fr.WriteRSTStream(h.StreamID, http2.ErrCode(code))
	}
}

// newBroken is the breaker as the service of a lane, and behind a guard.
func newBroken(t *testing.T) (e *env, addr, guard string) {
	t.Helper()
	addr = newBreaker(t)
	e = newEnv(t, nil)
	guard = e.guard(GuardConfig{Lane: "dev-alice", Service: "breaker", InstanceID: "b-alice", Local: []string{addr}})
	e.reg.set(service("breaker", instance("b-alice", addr, "dev-alice")), service("guarded", instance("b-alice", guard, "dev-alice")))
	return e, addr, guard
}

// A gRPC call whose server breaks off has the status that it has directly, after
// all that came before.
func TestGRPCBrokenOff(t *testing.T) {
	e, addr, guard := newBroken(t)
	ways := []struct {
		name string
		conn *grpc.ClientConn
		tag  string
	}{
		{"direct", dialGRPC(t, "", addr), "none"},
		{"guard", dialGRPC(t, "", guard), "dev-alice"},
		{"CONNECT", dialGRPC(t, e.addr, "breaker:1"), "dev-alice"},
		{"CONNECT and guard", dialGRPC(t, e.addr, "guarded:1"), "dev-alice"},
	}
	cases := map[string]codes.Code{
		"cut": codes.Unavailable, "half": codes.Unavailable,
		"bare/1": codes.Internal, "bare/2": codes.Internal, "bare/8": codes.Canceled, "bare/11": codes.ResourceExhausted, "bare/12": codes.PermissionDenied,
	}
	for code := range http2.ErrCodeHTTP11Required + 1 {
		want := codes.Internal
		switch code {
		case http2.ErrCodeRefusedStream:
			want = codes.Unavailable
		case http2.ErrCodeCancel:
			want = codes.Canceled
		case http2.ErrCodeEnhanceYourCalm:
			want = codes.ResourceExhausted
		case http2.ErrCodeInadequateSecurity:
			want = codes.PermissionDenied
		}
		cases[fmt.Sprint("reset/", uint32(code))] = want
	}
	for how, want := range cases {
		for _, w := range ways {
			ctx, cancel := context.WithCancel(t.Context()) // no deadline: its server's CANCEL is another thing
			st, err := w.conn.NewStream(metadata.AppendToOutgoingContext(ctx, "x-lane-tag", w.tag), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/x/"+how)
			if err != nil {
				t.Fatalf("%s, %s: %v", how, w.name, err)
			}
			heard, err := recvAll(t, st)
			cancel()
			if want := map[bool]string{true: "", false: "one;"}[strings.HasPrefix(how, "bare")]; heard != want {
				t.Errorf("%s, %s: heard %q", how, w.name, heard)
			}
			expect := want
			switch direct := w.name == "direct"; {
			case how == "reset/3" && direct: // grpc-go's own table differs from the protocol's here
				expect = codes.ResourceExhausted
			case how == "half" && !direct: // a client says this of every end within a message
				expect = codes.Internal
			case how == "bare/1" && !direct: // net/http would try again, and forgets why
				expect = codes.Unavailable
			}
			if status.Code(err) != expect {
				t.Errorf("%s, %s: %v, want %v", how, w.name, err, expect)
			}
		}
	}
}

// Without gRPC a stream that breaks off is reset: never does it look complete. Its
// code is net/http's, whatever the server's was.
func TestBrokenOff(t *testing.T) {
	e, addr, guard := newBroken(t)
	h2 := func(dial func(ctx context.Context) (net.Conn, error)) *http.Transport {
		tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
		tr.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	to := func(addr string) func(ctx context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
	}
	for _, w := range []struct {
		name string
		tr   *http.Transport
	}{
		{"direct", h2(to(addr))}, {"guard", h2(to(guard))},
		{"CONNECT", h2(func(ctx context.Context) (net.Conn, error) { return dialConnect(ctx, e.addr, "breaker:80") })},
	} {
		for _, how := range []string{"reset/8", "reset/11", "reset/0", "cut"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://breaker/x/"+how, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Lane-Tag", "dev-alice")
			resp, err := w.tr.RoundTrip(req)
			if err != nil {
				t.Fatalf("%s, %s: %v", how, w.name, err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			var reset streamError
			isReset := errors.As(err, &reset)
			_, arg, _ := strings.Cut(how, "/")
			switch {
			case resp.StatusCode != 200 || string(body) != "\x00\x00\x00\x00\x05\x0a\x03one" || err == nil:
				t.Errorf("%s, %s: %d %q %v", how, w.name, resp.StatusCode, body, err)
			case w.name == "direct" && how != "cut" && fmt.Sprint(reset.Code) != arg:
				t.Errorf("%s: %v", how, err)
			case w.name != "direct" && (!isReset || reset.Code != uint32(http2.ErrCodeInternal)):
				t.Errorf("%s, %s: %v", how, w.name, err)
			}
		}
	}
}
