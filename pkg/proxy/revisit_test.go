package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// unary is a call of /t.T/Unary as bytes.
func unary(t testing.TB, word string) *http.Request {
	t.Helper()
	msg, err := proto.Marshal(str(word))
	if err != nil {
		t.Fatal(err)
	}
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg))), msg...)
	req, err := http.NewRequestWithContext(shortly(t), http.MethodPost, "http://order-service:50051/t.T/Unary", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	return req
}

// said reads what unary gave.
func unaryAnswer(t testing.TB, res *http.Response, err error) (word string, h http.Header) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	frames, _ := traffic.Frames("", raw)
	m := &wrapperspb.StringValue{}
	if len(frames) != 1 || proto.Unmarshal(frames[0].Bytes, m) != nil {
		t.Fatalf("answered %q, %v", raw, res.Trailer)
	}
	return m.Value, res.Header
}

// Whoever asks a server again asks the one that answered, however many there are, and
// nobody takes that for a request.
func TestRevisitFindsTheInstanceAgain(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.KeepHeaders = true })
	one, two := newEcho(t, "one"), newEcho(t, "two")
	e.reg.set(service("order-service", instance("o-1", one.addr, ""), instance("o-2", two.addr, "")))
	c := dialGRPC(t, e.addr, "order-service:50051")
	ctx := metadata.AppendToOutgoingContext(shortly(t), "authorization", "Bearer x", "grpc-x", "1", "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	for range 4 { // both, in turns
		if err := c.Invoke(ctx, "/t.T/Unary", str("x"), &wrapperspb.StringValue{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "records", func() bool { return e.log.Last() == 4 })
	requests := e.tr.Counts().Total(traffic.CountRequests)
	seen := map[string]bool{}
	for seq := range uint64(4) {
		ex := e.exchange(seq + 1)
		want := map[string]string{"o-1": "one", "o-2": "two"}[ex.Instance]
		seen[want] = true
		for range 3 {
			res, err := e.tr.Revisit(unary(t, "again"), &ex)
			got, h := unaryAnswer(t, res, err)
			if got != want+" again" || h.Get("tag") != "dev-alice" {
				t.Errorf("exchange %d at %s: %q answered, tag %q", ex.Seq, ex.Instance, got, h.Get("tag"))
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("only %v were called", seen)
	}
	if e.log.Last() != 4 || e.tr.Counts().Total(traffic.CountRequests) != requests {
		t.Errorf("%d exchanges are recorded, want 4", e.log.Last())
	}
}

func TestRevisitOfALocalProcess(t *testing.T) {
	s := newGShop(t)
	g, err := NewGuard(s.tr, GuardConfig{Lane: "dev-alice", Service: "order-service", InstanceID: "o-alice", Local: []string{s.local.addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.local.close)
	ex := traffic.Exchange{Guard: traffic.GuardPassed, URL: "http://order-service:50051/t.T/Unary", Service: "order-service", Addr: s.local.addr}
	res, err := g.Revisit(unary(t, "x"), &ex)
	if got, h := unaryAnswer(t, res, err); got != "local x" || h.Get("tag") != "dev-alice" {
		t.Errorf("%q answered, tag %q", got, h.Get("tag"))
	}
	if s.log.Last() != 0 {
		t.Error("it is recorded")
	}
}

// What goes along is the user's and the lane's, and nothing of another message; a
// host outside does not see the lane.
func TestRevisitTakesTheUserAlong(t *testing.T) {
	e := newEnv(t, nil)
	server := newBackend(t, "svc", nil)
	ex := traffic.Exchange{Service: "svc", Addr: server.addr(), URL: "http://svc/p.S/M?q=1", Lane: "dev-alice", Kind: lane.KindLaneMatch,
		ReqHeader: traffic.HeadText("Authorization: Bearer x\r\nX-Tenant: t\r\nContent-Type: application/grpc\r\nContent-Length: 7\r\ngrpc-timeout: 1S\r\nTe: trailers\r\n" +
			"Connection: x-gone\r\nX-Gone: 1\r\nx-lane-guard: bounced\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nHost: svc\r\n")}
	ask := func() http.Header {
		t.Helper()
		res, err := e.tr.Revisit(unary(t, "x"), &ex)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return server.header()
	}
	h := ask()
	for name, want := range map[string]string{"Authorization": "Bearer x", "X-Tenant": "t", "X-Lane-Tag": "dev-alice", "Content-Type": "application/grpc", "Te": "trailers"} {
		if h.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, h.Get(name), want)
		}
	}
	for _, name := range []string{"Grpc-Timeout", "X-Gone", "X-Lane-Guard", "Traceparent", "User-Agent"} {
		if v, ok := h[name]; ok {
			t.Errorf("%s goes along: %q", name, v)
		}
	}
	if e.log.Last() != 0 {
		t.Error("it is recorded")
	}

	ex.Service, ex.Lane, ex.URL = "", "", "http://"+server.addr()+"/p.S/M"
	ex.ReqHeader = traffic.HeadText("X-Lane-Tag: dev-alice\r\nbaggage: lane=dev-alice,a=b\r\n")
	if h := ask(); h.Get("X-Lane-Tag") != "" || h.Get("Baggage") != "a=b" {
		t.Errorf("a host outside sees %v", h)
	}

	for name, change := range map[string]func(*traffic.Exchange){
		"an error of ours": func(e *traffic.Exchange) { e.Code = lane.CodeNoBaseline },
		"no address":       func(e *traffic.Exchange) { e.Addr = "" },
		"no URL":           func(e *traffic.Exchange) { e.URL = "%zz" },
		"no HTTP":          func(e *traffic.Exchange) { e.URL = "ftp://x/" },
	} {
		bad := ex
		change(&bad)
		if res, err := e.tr.Revisit(unary(t, "x"), &bad); !errors.Is(err, errUnserved) {
			if err == nil {
				res.Body.Close()
			}
			t.Errorf("%s: %v", name, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.tr.Revisit(unary(t, "x").WithContext(gone), &ex); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
}

// By TLS as the request went: the same instance, verified under the name that was
// asked for.
func TestRevisitByTLS(t *testing.T) {
	s := newTLSShop(t, true, func(c *Config) { c.KeepHeaders = true })
	base, alice := newEchoTLS(t, "base", s), newEchoTLS(t, "alice", s)
	s.reg.set(service("rpc", instance("o-base", base.addr, ""), instance("o-alice", alice.addr, "dev-alice")))
	c := dialGRPCTLS(t, s, "rpc:443")
	for i, tag := range []string{"dev-alice", "baseline"} {
		if err := c.Invoke(shortly(t, "x-lane-tag", tag), "/t.T/Unary", str("x"), &wrapperspb.StringValue{}); err != nil {
			t.Fatal(err)
		}
		ex := s.exchange(uint64(i + 1))
		want := map[string]string{"dev-alice": "alice", "baseline": "base"}[tag]
		for range 2 {
			res, err := s.tr.Revisit(unary(t, "again"), &ex)
			if got, h := unaryAnswer(t, res, err); got != want+" again" || h.Get("tag") != tag {
				t.Errorf("%s: %q answered, tag %q", tag, got, h.Get("tag"))
			}
		}
	}
	if n := s.log.Last(); n != 2 {
		t.Errorf("%d exchanges are recorded, want 2", n)
	}
}
