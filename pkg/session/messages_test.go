package session_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/session"
	"lane/pkg/traffic"
)

// rpc is a gRPC server with the health service; it remembers which methods were
// called, and with which tag.
type rpc struct {
	addr string
	mu   sync.Mutex
	got  []string
}

func newRPC(t *testing.T, describes bool) *rpc {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rpc{addr: ln.Addr().String()}
	note := func(ctx context.Context, method string) {
		md, _ := metadata.FromIncomingContext(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, method[strings.LastIndexByte(method, '/')+1:]+" "+strings.Join(md.Get("x-lane-tag"), ","))
	}
	srv := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, i *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			note(ctx, i.FullMethod)
			return h(ctx, req)
		}),
		grpc.StreamInterceptor(func(v any, st grpc.ServerStream, i *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			note(st.Context(), i.FullMethod)
			return h(v, st)
		}))
	hs := health.NewServer()
	hs.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(srv, hs)
	if describes {
		reflection.Register(srv)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Stop(); <-done })
	return r
}

func (r *rpc) calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// serves registers a server as the baseline of a service.
func (w *world) serves(name string, r *rpc) {
	w.t.Helper()
	host, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPut, "http://"+w.addr+"/v1/agent/service/register", strings.NewReader(
		`{"ID":"`+w.service(name)+`-1","Name":"`+w.service(name)+`","Address":"`+host+`","Port":`+port+`}`))
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := direct.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s %v", res.Status, body, err)
	}
}

// check calls the health service of a service through a session's proxy.
func check(t *testing.T, st control.Status, service string) {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+service+":50051", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(st.Proxy, "http://"))
			if err != nil {
				return nil, err
			}
			if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", addr, addr); err != nil {
				return nil, err
			}
			// Nothing comes behind the head until the client speaks.
			res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
			if err == nil && res.StatusCode != http.StatusOK {
				err = fmt.Errorf("CONNECT: %s", res.Status)
			}
			return conn, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := grpc_health_v1.NewHealthClient(c).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
}

// What a gRPC call said is read by what its own server says of it: the local process
// behind its guard, and a baseline's instance, each asked once, at the wish of
// whoever looks. None of that is traffic of the lane.
func TestMessagesOfGRPC(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	mine, described, plain := newRPC(t, true), newRPC(t, true), newRPC(t, false)
	o := w.options("one")
	o.Bodies, o.Services = true, []session.Service{{Name: w.service("orders"), Local: []string{mine.addr}}}
	w.serves("users", described)
	w.serves("ledger", plain)
	r := run(t, o)
	st := r.up()
	for _, name := range []string{"orders", "users", "ledger"} {
		check(t, st, w.service(name))
	}
	var rows []traffic.Exchange
	eventually(t, "the calls are recorded", func() bool {
		var err error
		if rows, _, err = r.ctl().Since(t.Context(), 0, control.AllHeads); err != nil {
			t.Fatal(err)
		}
		return len(rows) == 4
	})
	for range 2 { // two people look
		for _, e := range rows {
			got, err := r.ctl().Messages(t.Context(), e.Seq)
			if err != nil {
				t.Fatal(err)
			}
			if e.Service == w.service("ledger") {
				if got.Note != "its server offers no reflection" || len(got.Req)+len(got.Res) != 0 {
					t.Errorf("%s: %+v", e.Service, got)
				}
				continue
			}
			if got.Note != "" || !slices.Equal(got.Req, []string{"{}"}) || !slices.Equal(got.Res, []string{`{"status":"SERVING"}`}) {
				t.Errorf("%s at %s: %+v", e.Service, e.Addr, got)
			}
		}
	}
	// The local process has two places, at the guard and at the proxy.
	tag := string(w.lane)
	for _, c := range []struct {
		of   *rpc
		want []string
	}{
		{mine, []string{"Check " + tag, "ServerReflectionInfo " + tag, "ServerReflectionInfo " + tag}},
		{described, []string{"Check " + tag, "ServerReflectionInfo " + tag}},
		{plain, []string{"Check " + tag}},
	} {
		if got := c.of.calls(); !slices.Equal(got, c.want) {
			t.Errorf("called: %q, want %q", got, c.want)
		}
	}
	if again, _, err := r.ctl().Since(t.Context(), 0, 0); err != nil || len(again) != len(rows) {
		t.Errorf("%d exchanges after that, %v, want %d", len(again), err, len(rows))
	}
	if n := r.status().Counts.Exchanges; n != uint64(len(rows)) {
		t.Errorf("%d exchanges are counted, want %d", n, len(rows))
	}
}

// The same by a relay, both ways: of a call that came in through the tunnel the local
// process is asked, and of one that went out through it the instance, by the tunnel too. A
// server without reflection is told from a tunnel that is lost.
func TestMessagesOfGRPCByARelay(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	mine, described, plain := newRPC(t, true), newRPC(t, true), newRPC(t, false)
	w.serves("users", described)
	w.serves("ledger", plain)
	o := w.options("one")
	o.Bodies, o.Services = true, []session.Service{{Name: w.service("orders"), Local: []string{mine.addr}}}
	o.Relay, _ = w.relayed()
	o.Relay.Outgoing = true
	line := newWire(t, strings.TrimPrefix(o.Relay.URL, "wss://"))
	o.Relay.URL = "wss://" + line.addr
	r := run(t, o)
	st := r.up()
	in, err := grpc.NewClient("passthrough:///127.0.0.1:"+w.own().Port, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-lane-tag", string(w.lane)), patience)
	defer cancel()
	if _, err := grpc_health_v1.NewHealthClient(in).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	check(t, st, w.service("users"))
	check(t, st, w.service("ledger"))
	var rows []traffic.Exchange
	eventually(t, "the calls are recorded", func() bool {
		var err error
		if rows, _, err = r.ctl().Since(t.Context(), 0, control.AllHeads); err != nil {
			t.Fatal(err)
		}
		return len(rows) == 3
	})
	messages := func(e *traffic.Exchange) traffic.Messages {
		t.Helper()
		got, err := r.ctl().Messages(t.Context(), e.Seq)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for i := range rows {
		got := messages(&rows[i])
		if rows[i].Service == w.service("ledger") {
			if got.Note != "its server offers no reflection" || len(got.Req)+len(got.Res) != 0 {
				t.Errorf("%s: %+v", rows[i].Service, got)
			}
			continue
		}
		if got.Note != "" || !slices.Equal(got.Req, []string{"{}"}) || !slices.Equal(got.Res, []string{`{"status":"SERVING"}`}) {
			t.Errorf("%s at %s: %+v", rows[i].Service, rows[i].Addr, got)
		}
	}
	tag := string(w.lane)
	for _, c := range []struct {
		of   *rpc
		want []string
	}{{mine, []string{"Check " + tag, "ServerReflectionInfo " + tag}}, {described, []string{"Check " + tag, "ServerReflectionInfo " + tag}}, {plain, []string{"Check " + tag}}} {
		if got := c.of.calls(); !slices.Equal(got, c.want) {
			t.Errorf("called: %q, want %q", got, c.want)
		}
	}
	if n := r.status().Counts.Exchanges; n != uint64(len(rows)) {
		t.Errorf("%d exchanges are counted, want %d", n, len(rows))
	}

	// Another server, which nobody has asked yet, and no way to it.
	other := newRPC(t, true)
	w.serves("stock", other)
	check(t, st, w.service("stock"))
	line.cut()
	eventually(t, "the call is recorded", func() bool {
		var err error
		if rows, _, err = r.ctl().Since(t.Context(), 0, 0); err != nil {
			t.Fatal(err)
		}
		return len(rows) == 4 && r.status().Relay.State == control.RelayReconnecting
	})
	if got := messages(&rows[3]); got.Note == "" || strings.Contains(got.Note, "offers no reflection") || len(other.calls()) != 1 {
		t.Errorf("by a tunnel that is lost: %+v, called %q", got, other.calls())
	}
	line.join()
	if err := r.stop(); err != nil && !strings.Contains(err.Error(), errEnd.Error()) {
		t.Error(err)
	}
}

// own is the lane's own instance in the registry.
func (w *world) own() instance {
	w.t.Helper()
	for _, in := range w.instances() {
		if in.App != "" {
			return in
		}
	}
	w.t.Fatal("there is none")
	return instance{}
}
