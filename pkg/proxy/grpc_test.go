package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lane/pkg/lane"
)

// echo is a gRPC server without generated code: its methods take and give
// strings, and do what the string says.
type echo struct {
	name string
	addr string
	hits atomic.Int64
	ends chan error // how calls ended whose caller left
	srv  *grpc.Server
}

func newEcho(t testing.TB, name string, opts ...grpc.ServerOption) *echo {
	return newEchoAt(t, name, "127.0.0.1:0", opts...)
}

func newEchoAt(t testing.TB, name, addr string, opts ...grpc.ServerOption) *echo {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &echo{name: name, addr: ln.Addr().String(), ends: make(chan error, 16)}
	s.srv = grpc.NewServer(append(opts, grpc.UnknownServiceHandler(s.serve))...)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.srv.Serve(ln) }()
	t.Cleanup(func() { s.srv.Stop(); <-done })
	return s
}

func str(s string) *wrapperspb.StringValue { return wrapperspb.String(s) }

func (s *echo) serve(_ any, st grpc.ServerStream) error {
	s.hits.Add(1)
	method, _ := grpc.MethodFromServerStream(st)
	ctx := st.Context()
	md, _ := metadata.FromIncomingContext(ctx)
	switch method {
	case "/t.T/Unary":
		m := &wrapperspb.StringValue{}
		if err := st.RecvMsg(m); err != nil {
			return err
		}
		_ = st.SendHeader(metadata.Pairs("who", s.name, "tag", strings.Join(md["x-lane-tag"], ","), "te", strings.Join(md["te"], ",")))
		st.SetTrailer(metadata.Pairs("t-end", "yes"))
		return st.SendMsg(str(s.name + " " + m.Value))
	case "/t.T/Code":
		m := &wrapperspb.Int32Value{}
		if err := st.RecvMsg(m); err != nil {
			return err
		}
		if m.Value == 0 {
			return st.SendMsg(str("ok"))
		}
		detailed, err := status.New(codes.Code(m.Value), "message of ü "+fmt.Sprint(m.Value)).WithDetails(&structpb.Struct{
			Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(float64(m.Value))}})
		if err != nil {
			return err
		}
		return detailed.Err()
	case "/t.T/Big":
		st.SetTrailer(metadata.Pairs("t-big", strings.Repeat("x", 16<<10)))
		return status.Error(codes.DataLoss, "big")
	case "/t.T/Server":
		m := &wrapperspb.StringValue{}
		if err := st.RecvMsg(m); err != nil {
			return err
		}
		for i := range 3 {
			if err := st.SendMsg(str(fmt.Sprint(m.Value, i))); err != nil {
				return err
			}
		}
		return nil
	case "/t.T/Client":
		var all string
		for {
			m := &wrapperspb.StringValue{}
			err := st.RecvMsg(m)
			if errors.Is(err, io.EOF) {
				return st.SendMsg(str(all))
			}
			if err != nil {
				return err
			}
			all += m.Value
		}
	case "/t.T/Bidi": // the head at once; ends first at "end"
		if err := st.SendHeader(metadata.Pairs("early", "1")); err != nil {
			return err
		}
		for {
			m := &wrapperspb.StringValue{}
			err := st.RecvMsg(m)
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			case m.Value == "end":
				return status.Error(codes.OutOfRange, "the server ends first")
			}
			if err := st.SendMsg(m); err != nil {
				return err
			}
		}
	case "/t.T/Wait":
		<-ctx.Done()
		s.ends <- ctx.Err()
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unimplemented, method)
}

// tunnel is the CONNECT that grpc-go makes.
func tunnel(ctx context.Context, proxy, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxy)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: grpc-go\r\n\r\n", addr, addr); err != nil {
		return nil, err
	}
	var head []byte // to the byte: what follows is HTTP/2's
	for b := make([]byte, 1); !strings.HasSuffix(string(head), "\r\n\r\n"); {
		if _, err := io.ReadFull(conn, b); err != nil {
			return nil, err
		}
		head = append(head, b[0])
	}
	if !strings.HasPrefix(string(head), "HTTP/1.1 200") {
		conn.Close()
		return nil, errors.New(string(head))
	}
	return conn, nil
}

// dialGRPC makes a client; proxy "" goes directly. grpc-go asks HTTPS_PROXY once
// for a process, so the test makes the CONNECT that it would make.
func dialGRPC(t testing.TB, proxy, target string, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()}
	if proxy != "" {
		opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return tunnel(ctx, proxy, addr)
		}))
	}
	c, err := grpc.NewClient("passthrough:///"+target, append(opts, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func shortly(t testing.TB, kv ...string) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, kv...)
}

// gshop is order-service over gRPC: a baseline, and dev-alice's process behind a
// guard.
type gshop struct {
	*env
	base, local *echo
	guardAddr   string
}

func newGShop(t testing.TB) *gshop {
	s := &gshop{base: newEcho(t, "base"), local: newEcho(t, "local"), env: newEnv(t, nil)}
	s.guardAddr = s.guard(GuardConfig{Lane: "dev-alice", Service: "order-service", InstanceID: "o-alice", Local: []string{s.local.addr}})
	s.reg.set(service("order-service", instance("o-base", s.base.addr, ""), instance("o-alice", s.guardAddr, "dev-alice")))
	return s
}

// each runs a test by every way to the local process.
func (s *gshop) each(t *testing.T, test func(t *testing.T, c *grpc.ClientConn, kv ...string)) {
	for _, way := range grpcWays {
		t.Run(way, func(t *testing.T) {
			c, kv := s.way(t, way)
			test(t, c, kv...)
		})
	}
}

func TestGRPCUnary(t *testing.T) {
	s := newGShop(t)
	s.each(t, func(t *testing.T, c *grpc.ClientConn, kv ...string) {
		var head, tail metadata.MD
		out := &wrapperspb.StringValue{}
		if err := c.Invoke(shortly(t, kv...), "/t.T/Unary", str("x"), out, grpc.Header(&head), grpc.Trailer(&tail)); err != nil {
			t.Fatal(err)
		}
		if out.Value != "local x" || head.Get("who")[0] != "local" || len(tail.Get("t-end")) != 1 {
			t.Errorf("%q %v %v", out.Value, head, tail)
		}
		if t.Name() != "TestGRPCUnary/direct" && (head.Get("tag")[0] != "dev-alice" || !strings.HasPrefix(head.Get("x-lane-decision")[0], "LANE_MATCH")) {
			t.Errorf("%v", head)
		}
	})
	eventually(t, "records", func() bool { return s.log.Last() == 3 })
	for i := range 3 { // the guard; then the guard and the proxy
		if ex := s.exchange(uint64(i + 1)); ex.Proto != "HTTP/2.0" || ex.Method != "POST" || ex.Kind != lane.KindLaneMatch || ex.Err != "" || ex.Status != 200 {
			t.Errorf("%+v", ex)
		}
	}
}

// A client that is late with its first byte is colored all the same, though the
// baseline has been asked by then and has begun by its settings.
func TestGRPCSpeaksLate(t *testing.T) {
	s := newGShop(t)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	spoke := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := front.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		close(spoke)
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("the baseline got %q", b)
		}
	}()
	s.reg.set(service("order-service", instance("o-base", front.Addr().String(), ""), instance("o-alice", s.guardAddr, "dev-alice")))
	c := dialGRPC(t, s.addr, "order-service:50051", grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := tunnel(ctx, s.addr, addr)
		if err == nil {
			<-spoke
		}
		return conn, err
	}))
	out := &wrapperspb.StringValue{}
	if err := c.Invoke(shortly(t), "/t.T/Unary", str("x"), out); err != nil || out.Value != "local x" {
		t.Errorf("%q, %v", out.Value, err)
	}
	c.Close()
	<-done
	for seq := range uint64(2) { // at the guard, and at the proxy
		if ex := s.exchange(seq + 1); ex.Note != "" || ex.Kind != lane.KindLaneMatch {
			t.Errorf("%+v", ex)
		}
	}
}

// Every status is the same with lane and without: code, message, details.
func TestGRPCStatuses(t *testing.T) {
	s := newGShop(t)
	s.each(t, func(t *testing.T, c *grpc.ClientConn, kv ...string) {
		for n := range int32(17) {
			err := c.Invoke(shortly(t, kv...), "/t.T/Code", wrapperspb.Int32(n), &wrapperspb.StringValue{})
			st := status.Convert(err)
			if st.Code() != codes.Code(n) {
				t.Errorf("%d: %v", n, st)
			}
			if n == 0 {
				continue
			}
			if st.Message() != "message of ü "+fmt.Sprint(n) || len(st.Details()) != 1 ||
				!proto.Equal(st.Details()[0].(proto.Message), &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(float64(n))}}) {
				t.Errorf("%d: %q %v", n, st.Message(), st.Details())
			}
		}
		var tail metadata.MD
		err := c.Invoke(shortly(t, kv...), "/t.T/Big", str(""), &wrapperspb.StringValue{}, grpc.Trailer(&tail))
		if status.Code(err) != codes.DataLoss || len(tail.Get("t-big")) != 1 || len(tail.Get("t-big")[0]) != 16<<10 {
			t.Errorf("big trailers: %v", err)
		}
	})
}

func recvAll(t *testing.T, st grpc.ClientStream) (all string, err error) {
	t.Helper()
	for {
		m := &wrapperspb.StringValue{}
		if err := st.RecvMsg(m); err != nil {
			return all, err
		}
		all += m.Value + ";"
	}
}

func TestGRPCStreams(t *testing.T) {
	s := newGShop(t)
	s.each(t, func(t *testing.T, c *grpc.ClientConn, kv ...string) {
		open := func(method string) grpc.ClientStream {
			st, err := c.NewStream(shortly(t, kv...), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		send := func(st grpc.ClientStream, v string) {
			if err := st.SendMsg(str(v)); err != nil {
				t.Fatal(err)
			}
		}
		st := open("/t.T/Server")
		send(st, "a")
		_ = st.CloseSend()
		if all, err := recvAll(t, st); all != "a0;a1;a2;" || !errors.Is(err, io.EOF) {
			t.Errorf("server: %q %v", all, err)
		}
		st = open("/t.T/Client")
		for _, v := range []string{"a", "b", "c"} {
			send(st, v)
		}
		_ = st.CloseSend()
		if all, err := recvAll(t, st); all != "abc;" || !errors.Is(err, io.EOF) {
			t.Errorf("client: %q %v", all, err)
		}
		st = open("/t.T/Bidi")
		if head, err := st.Header(); err != nil || len(head.Get("early")) != 1 { // before anything was sent
			t.Fatalf("head %v %v", head, err)
		}
		for _, v := range []string{"a", "b"} {
			send(st, v)
			m := &wrapperspb.StringValue{}
			if err := st.RecvMsg(m); err != nil || m.Value != v {
				t.Fatalf("bidi: %q %v", m.Value, err)
			}
		}
		send(st, "end") // and the caller's side stays open
		if _, err := recvAll(t, st); status.Code(err) != codes.OutOfRange || status.Convert(err).Message() != "the server ends first" {
			t.Errorf("bidi: %v", err)
		}
	})
}

// What is not the lane's never comes to the local process, stream by stream on one
// connection.
func TestGRPCGuardTurnsAway(t *testing.T) {
	s := newGShop(t)
	c := dialGRPC(t, "", s.guardAddr)
	for _, tag := range []string{"", "dev-bob", "baseline", "Not-A-Lane"} {
		var kv []string
		if tag != "" {
			kv = []string{"x-lane-tag", tag}
		}
		out := &wrapperspb.StringValue{}
		if err := c.Invoke(shortly(t, kv...), "/t.T/Unary", str("x"), out); err != nil || out.Value != "base x" {
			t.Errorf("%q: %q %v", tag, out.Value, err)
		}
		st, err := c.NewStream(shortly(t, kv...), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/t.T/Bidi")
		if err != nil {
			t.Fatal(err)
		}
		_ = st.SendMsg(str("a"))
		_ = st.CloseSend()
		if all, err := recvAll(t, st); all != "a;" || !errors.Is(err, io.EOF) {
			t.Errorf("%q: %q %v", tag, all, err)
		}
	}
	if n := s.local.hits.Load(); n != 0 {
		t.Fatalf("the local process was called %d times", n)
	}
	out := &wrapperspb.StringValue{}
	if err := c.Invoke(shortly(t, "x-lane-tag", "dev-alice"), "/t.T/Unary", str("x"), out); err != nil || out.Value != "local x" {
		t.Errorf("%q %v", out.Value, err)
	}
}

// Errors of ours are gRPC statuses.
func TestGRPCProblems(t *testing.T) {
	s := newGShop(t)
	s.reg.set(service("dead", instance("d", closedAddr(t), "")),
		service("order-service", instance("o-alice", s.guardAddr, "dev-alice")),
		lane.NewService("declared", []lane.Instance{instance("b", s.base.addr, "")}, []lane.Name{"dev-alice"}))
	for _, tt := range []struct {
		proxy, target, tag string
		code               codes.Code
		say                lane.Code
	}{
		{s.addr, "dead:1", "", codes.Unavailable, lane.CodeUpstreamConnect},
		{s.addr, "declared:1", "", codes.Unavailable, lane.CodeLaneUnhealthy},
		{s.addr, "order-service:1", "No Lane", codes.InvalidArgument, lane.CodeTagInvalid},
		{"", s.guardAddr, "dev-bob", codes.Unavailable, lane.CodeNoBaseline},
	} {
		var kv []string
		if tt.tag != "" {
			kv = []string{"x-lane-tag", tt.tag}
		}
		var head, tail metadata.MD
		err := dialGRPC(t, tt.proxy, tt.target).Invoke(shortly(t, kv...), "/t.T/Unary", str(""), &wrapperspb.StringValue{}, grpc.Header(&head), grpc.Trailer(&tail))
		st := status.Convert(err)
		if st.Code() != tt.code || !strings.HasPrefix(st.Message(), string(tt.say)+": ") {
			t.Errorf("%s: %v", tt.target, err)
		}
		// A reply of one HEADERS frame: its head is the trailers.
		if len(head) != 0 || len(tail.Get("x-lane-error")) != 1 || tail.Get("x-lane-error")[0] != string(tt.say) || !strings.HasPrefix(strings.Join(tail.Get("x-lane-decision"), ""), "ERROR") {
			t.Errorf("%s: head %v, trailers %v", tt.target, head, tail)
		}
	}
	if s.local.hits.Load() != 0 {
		t.Error("the local process was called")
	}
}

// At the end the caller is told to go elsewhere, and what runs may finish.
func TestGRPCGoAway(t *testing.T) {
	s := newGShop(t)
	g, err := NewGuard(s.tr, GuardConfig{Lane: "dev-alice", Service: "order-service", InstanceID: "o-2", Local: []string{s.local.addr}, Drain: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	f := NewForward(s.tr, ForwardConfig{Drain: 10 * time.Second})
	for _, at := range []struct {
		name string
		run  func(context.Context, net.Listener) error
		n    func() int
	}{{"guard", g.Serve, g.InFlight}, {"proxy", f.Serve, f.InFlight}} {
		t.Run(at.name, func(t *testing.T) {
			r := s.start(at.run)
			c, kv := dialGRPC(t, "", r.addr), []string{"x-lane-tag", "dev-alice"}
			if at.name == "proxy" {
				c = dialGRPC(t, r.addr, "order-service:1")
			}
			st, err := c.NewStream(shortly(t, kv...), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/t.T/Bidi")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.Header(); err != nil {
				t.Fatal(err)
			}
			if n := at.n(); n != 1 {
				t.Errorf("%d in flight", n)
			}
			ended := make(chan error, 1)
			go func() { ended <- r.end() }()
			for c.GetState().String() == "READY" { // until the GOAWAY
				if !c.WaitForStateChange(shortly(t), c.GetState()) {
					t.Fatal("not told")
				}
			}
			_ = st.SendMsg(str("a"))
			_ = st.CloseSend()
			if all, err := recvAll(t, st); all != "a;" || !errors.Is(err, io.EOF) {
				t.Errorf("%q %v", all, err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// Two hundred streams with tags of their own on few connections: none gets
// another's answer, and the local process sees its lane's alone.
func TestGRPCNoMixing(t *testing.T) {
	s := newGShop(t)
	conns := []*grpc.ClientConn{dialGRPC(t, s.addr, "order-service:1"), dialGRPC(t, "", s.guardAddr)}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			tag, who := fmt.Sprintf("dev-%d", i), "base"
			if i%4 == 0 {
				tag, who = "dev-alice", "local"
			}
			var head metadata.MD
			out := &wrapperspb.StringValue{}
			err := conns[i%2].Invoke(shortly(t, "x-lane-tag", tag), "/t.T/Unary", str(fmt.Sprint(i)), out, grpc.Header(&head))
			if err != nil || out.Value != fmt.Sprintf("%s %d", who, i) || head.Get("tag")[0] != tag {
				t.Errorf("%d: %q %v %v", i, out.Value, head, err)
			}
		})
	}
	wg.Wait()
	if n := s.local.hits.Load(); n != 50 {
		t.Errorf("%d calls of the local process, want 50", n)
	}
}
