package describe

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lane/pkg/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a gRPC server of grpc-go with the health service.
type server struct {
	addr string
	asks atomic.Int64 // calls of its reflection
}

func serve(t *testing.T, register func(*grpc.Server), opts ...grpc.ServerOption) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: ln.Addr().String()}
	srv := grpc.NewServer(append(opts, grpc.ChainStreamInterceptor(func(v any, st grpc.ServerStream, i *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		if strings.Contains(i.FullMethod, "reflection") {
			s.asks.Add(1)
		}
		return h(v, st)
	}))...)
	hs := health.NewServer()
	hs.SetServingStatus("orders", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(srv, hs)
	register(srv)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Stop(); <-done })
	return s
}

// sender is a way to it.
func (s *server) sender(t *testing.T) Send {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return func(req *http.Request) (*http.Response, error) {
		out := req.Clone(req.Context())
		out.URL.Host = s.addr
		return tr.RoundTrip(out)
	}
}

// check calls the health service and keeps the two bodies, as they were on the wire.
func (s *server) check(t *testing.T, opts ...grpc.CallOption) *traffic.Exchange {
	t.Helper()
	wire := &tap{}
	c, err := grpc.NewClient("passthrough:///"+s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithContextDialer(wire.dial))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := grpc_health_v1.NewHealthClient(c).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "orders"}, opts...); err != nil {
		t.Fatal(err)
	}
	e := exchange("/grpc.health.v1.Health/Check", wire.data(&wire.sent, len(preface)), wire.data(&wire.got, 0))
	if len(opts) > 0 {
		h := traffic.HeadText("Content-Type: application/grpc\r\nGrpc-Encoding: gzip\r\n")
		e.ReqHeader, e.ResHeader = h, h
	}
	return e
}

// tap keeps what passes on a connection.
type tap struct {
	net.Conn
	mu        sync.Mutex
	sent, got bytes.Buffer
}

func (p *tap) dial(ctx context.Context, addr string) (net.Conn, error) {
	var err error
	p.Conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
	return p, err
}

func (p *tap) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.sent.Write(b)
	p.mu.Unlock()
	return p.Conn.Write(b)
}

func (p *tap) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.mu.Lock()
	p.got.Write(b[:n])
	p.mu.Unlock()
	return n, err
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// data is what stands in one side's DATA frames (RFC 9113, 4.1).
func (p *tap) data(side *bytes.Buffer, from int) (out []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := side.Bytes()[from:]; len(b) >= 9; {
		n := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		if b[3] == 0 {
			out = append(out, b[9:9+n]...)
		}
		b = b[min(9+n, len(b)):]
	}
	return out
}

// exchange is one with two bodies.
func exchange(path string, req, res []byte) *traffic.Exchange {
	h := traffic.HeadText("Content-Type: application/grpc\r\n")
	return &traffic.Exchange{URL: "http://orders:50051" + path, Instance: "orders-1", Addr: "127.0.0.1:1", ReqHeader: h, ResHeader: h,
		ReqBody: &traffic.Body{Bytes: req}, ResBody: &traffic.Body{Bytes: res}}
}

func read(t *testing.T, r *Reader, e *traffic.Exchange, send Send) traffic.Messages {
	t.Helper()
	return r.Read(t.Context(), e, send)
}

// With reflection of either version the messages are read, compressed ones too; the
// server is asked once.
func TestMessagesOfAServerWithReflection(t *testing.T) {
	for name, register := range map[string]func(*grpc.Server){
		"both": func(s *grpc.Server) { reflection.Register(s) },
		"v1": func(s *grpc.Server) {
			grpc_reflection_v1.RegisterServerReflectionServer(s, reflection.NewServerV1(reflection.ServerOptions{Services: s}))
		},
		"v1alpha": func(s *grpc.Server) {
			grpc_reflection_v1alpha.RegisterServerReflectionServer(s, reflection.NewServer(reflection.ServerOptions{Services: s}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, register)
			send, r := s.sender(t), NewReader(time.Now)
			for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
				got := read(t, r, s.check(t, opts...), send)
				if got.Note != "" || len(got.Req) != 1 || got.Req[0] != `{"service":"orders"}` || len(got.Res) != 1 || got.Res[0] != `{"status":"SERVING"}` {
					t.Errorf("with %d options: %+v", len(opts), got)
				}
			}
			if n := s.asks.Load(); n > 2 { // a version that is not there may count too
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}

func TestMessagesOfAServerWithoutReflection(t *testing.T) {
	s := serve(t, func(*grpc.Server) {})
	send, r := s.sender(t), NewReader(time.Now)
	for range 2 {
		got := read(t, r, s.check(t), send)
		if got.Note != "its server offers no reflection" || len(got.Req)+len(got.Res) != 0 {
			t.Errorf("%+v", got)
		}
	}
}

// A server that refuses is no server without reflection: it says why.
func TestMessagesOfAServerThatRefuses(t *testing.T) {
	s := serve(t, func(s *grpc.Server) { reflection.Register(s) },
		grpc.ChainStreamInterceptor(func(any, grpc.ServerStream, *grpc.StreamServerInfo, grpc.StreamHandler) error {
			return status.Error(codes.PermissionDenied, "no ü\x1b for you")
		}))
	got := read(t, NewReader(time.Now), exchange("/grpc.health.v1.Health/Check", nil, nil), s.sender(t))
	if got.Note != `its server's reflection refuses: no ü\x1b for you (gRPC code 7)` {
		t.Errorf("%+v", got)
	}
}

func TestMessagesOfAnUnknownService(t *testing.T) {
	s := serve(t, func(s *grpc.Server) { reflection.Register(s) })
	send, r := s.sender(t), NewReader(time.Now)
	for path, want := range map[string]string{
		"/shop.v1.Orders/Get":         "its server's reflection says: ",
		"/grpc.health.v1.Health/Gone": "its server's reflection does not describe grpc.health.v1.Health/Gone",
		"/index.html":                 "the path is none of a gRPC method",
		"/a/b/c":                      "the path is none of a gRPC method",
		"/":                           "the path is none of a gRPC method",
	} {
		if got := read(t, r, exchange(path, nil, nil), send); !strings.HasPrefix(got.Note, want) || strings.Contains(got.Note, "\n") {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// A server that does not answer is given up, and asked again the next time; one that
// has answered is not, for a minute.
func TestHowLongAnAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		var silent, none atomic.Bool
		send := func(req *http.Request) (*http.Response, error) {
			asked++
			if silent.Load() {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			if none.Load() {
				return &http.Response{StatusCode: 404, Header: http.Header{}, Body: http.NoBody}, nil
			}
			return files(t, req, true), nil
		}
		r, e := NewReader(time.Now), exchange("/shop.Orders/Get", nil, nil)
		silent.Store(true)
		from := time.Now()
		if got := read(t, r, e, send); !strings.HasPrefix(got.Note, "its server's reflection did not answer within 3s") || time.Since(from) != askLimit {
			t.Errorf("after %v: %+v", time.Since(from), got)
		}
		silent.Store(false)
		n := asked
		for range 3 {
			if got := read(t, r, e, send); got.Note != "" {
				t.Errorf("%+v", got)
			}
		}
		if asked != n+2 { // its file, and the one that this needs
			t.Errorf("asked %d times, want 2", asked-n)
		}
		time.Sleep(keepFor)
		none.Store(true)
		for range 3 {
			if got := read(t, r, e, send); got.Note != errNotOffered.Error() {
				t.Errorf("%+v", got)
			}
		}
		if asked != n+4 { // by both versions
			t.Errorf("asked %d times, want 4", asked-n)
		}
		// Another instance may have other messages.
		other := *e
		other.Instance = "orders-2"
		none.Store(false)
		if got := read(t, r, &other, send); got.Note != "" {
			t.Errorf("%+v", got)
		}
	})
}

// What is kept is bounded, whatever is called.
func TestAnswersAreBounded(t *testing.T) {
	r := NewReader(time.Now)
	none := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 404, Header: http.Header{}, Body: http.NoBody}, nil
	}
	for i := range 500 {
		e := exchange("/shop.Orders/Get", nil, nil)
		e.Instance = strings.Repeat("i", i)
		read(t, r, e, none)
	}
	if len(r.known) != knownMost {
		t.Errorf("%d answers are kept, want %d", len(r.known), knownMost)
	}
}

// Bytes that are no answer do no harm.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x03\x22\x01\x0a"), []byte("\x00\x00\x00\x00\x02\x0a\x00"))
	f.Add(frame(response(f, shop(f))), frame([]byte("\x0a\x02ab")))
	f.Fuzz(func(t *testing.T, answer, body []byte) {
		send := func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Trailer: http.Header{"Grpc-Status": {"0"}}, Body: io.NopCloser(bytes.NewReader(answer))}, nil
		}
		got := NewReader(time.Now).Read(t.Context(), exchange("/shop.Orders/Get", body, body), send)
		if strings.ContainsAny(got.Note, "\x1b\n\r") {
			t.Errorf("a note has %q", got.Note)
		}
	})
}

// frame is a gRPC message on the wire.
func frame(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg))), msg...)
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
