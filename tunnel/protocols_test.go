package tunnel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An application that has gone ends the stream for the caller, and the other way
// round; what was under way arrives.
func TestJoin(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r, _ := pair(t, quick(), to(l.Addr().String()))
	app := func() *net.TCPConn {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		t.Cleanup(func() { _ = c.Close() })
		return c.(*net.TCPConn)
	}
	t.Run("each end by itself", func(t *testing.T) {
		s := r.dial(t, "orders")
		_, _ = io.WriteString(s, "question")
		_ = s.CloseWrite()
		c := app()
		if b, err := io.ReadAll(c); string(b) != "question" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		_, _ = io.WriteString(c, "answer")
		_ = c.CloseWrite()
		if b, err := io.ReadAll(s); string(b) != "answer" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("the application is killed", func(t *testing.T) {
		s := r.dial(t, "orders")
		_, _ = io.WriteString(s, "question")
		c := app()
		_, _ = io.ReadFull(c, make([]byte, 8))
		_ = c.SetLinger(0)
		_ = c.Close()
		_, err := s.Read(make([]byte, 1))
		if no := asRefusal(err, 0); no.Code != 502 {
			t.Errorf("a reset is read as %v", err)
		}
	})
	t.Run("the caller has gone while the application thinks", func(t *testing.T) {
		s := r.dial(t, "orders")
		_, _ = io.WriteString(s, "one line")
		_ = s.Close()
		c := app()
		if b, err := io.ReadAll(c); string(b) != "one line" || err != nil {
			t.Errorf("what was sent before the end: %q, %v", b, err)
		}
	})
	t.Run("the caller is cut", func(t *testing.T) {
		s := r.dial(t, "orders")
		_, _ = io.WriteString(s, "one")
		c := app()
		_, _ = io.ReadFull(c, make([]byte, 3))
		s.Abort(499, "gone")
		if b, err := io.ReadAll(c); err == nil {
			t.Errorf("a cut was read as an end after %q", b)
		}
	})
	t.Run("the link is lost, and the application hears of it behind who asks why", func(t *testing.T) {
		here, there := net.Pipe()
		why := make(chan error, 2)
		lost := make(chan struct{})
		r, _ := pair(t, quick(), func(ctx context.Context, _ Claim, _ Header, s Stream) {
			_ = JoinTelling(ctx, s, here, func(err error) { why <- err })
			close(lost)
		})
		s := r.dial(t, "orders")
		if _, err := io.WriteString(s, "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(there, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		r.stop() // it waits, and then waits no longer
		_, _ = there.Read(make([]byte, 1))
		select {
		case err := <-why:
			if !errors.Is(err, ErrLost) {
				t.Errorf("it was told %v", err)
			}
		default:
			t.Error("it was not told before the connection ended")
		}
		<-lost
	})
	t.Run("nobody listens", func(t *testing.T) {
		_ = l.Close()
		s := r.dial(t, "orders")
		_, err := s.Read(make([]byte, 1))
		if no := asRefusal(err, 0); no.Code != 502 || !strings.HasPrefix(no.Text, "lane-local-down: ") {
			t.Errorf("%v", err)
		}
	})
}

// Server-sent events and a WebSocket through the tunnel are streams that stay
// open; HTTP/2 with gRPC's trailers is one connection in one stream.
func TestProtocols(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			if !pause(t, 20*time.Millisecond) {
				return
			}
		}
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(c, rw)
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("Grpc-Status", "0")
	})
	r, _ := pair(t, quick(), to(httpServer(t, mux)))
	c := r.client(t, "orders")
	if got := get(t, c, "http://orders/events"); !strings.HasSuffix(got, "data: 4\n\n") {
		t.Errorf("%q", got)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://orders/trailers", strings.NewReader("hi"))
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(b) != "hi" || resp.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%q, trailers %v", b, resp.Trailer)
	}
	s := r.dial(t, "orders")
	_, _ = io.WriteString(s, "GET /upgrade HTTP/1.1\r\nHost: orders\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	br := bufio.NewReader(s)
	up, err := http.ReadResponse(br, nil)
	if err != nil || up.StatusCode != 101 {
		t.Fatalf("%v, %v", up, err)
	}
	for i := range 3 {
		line := fmt.Sprintf("message %d\n", i)
		_, _ = io.WriteString(s, line)
		if got, err := br.ReadString('\n'); got != line || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// A bidirectional gRPC stream, with headers and trailers, through one stream.
func TestGRPC(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	desc := &grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Chat", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			s.SetTrailer(metadata.Pairs("x-count", "3"))
			for {
				var m wrapperspb.StringValue
				if err := s.RecvMsg(&m); err != nil {
					if errors.Is(err, io.EOF) {
						return nil
					}
					return err
				}
				if err := s.SendMsg(wrapperspb.String("echo " + m.GetValue())); err != nil {
					return err
				}
			}
		},
	}}}
	server := grpc.NewServer()
	server.RegisterService(desc, struct{}{})
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-served })
	r, _ := pair(t, quick(), to(l.Addr().String()))
	conn, err := grpc.NewClient("passthrough:///orders", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return r.Dial(ctx, "dev-alice", "orders", Header{})
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	chat, err := conn.NewStream(ctx, &desc.Streams[0], "/test.Echo/Chat")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := chat.SendMsg(wrapperspb.String(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		var m wrapperspb.StringValue
		if err := chat.RecvMsg(&m); err != nil || m.GetValue() != fmt.Sprintf("echo %d", i) {
			t.Fatalf("%q, %v", m.GetValue(), err)
		}
	}
	_ = chat.CloseSend()
	var m wrapperspb.StringValue
	if err := chat.RecvMsg(&m); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	if got := chat.Trailer().Get("x-count"); len(got) != 1 || got[0] != "3" {
		t.Errorf("trailers %v", chat.Trailer())
	}
}
