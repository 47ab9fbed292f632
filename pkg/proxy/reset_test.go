package proxy

import (
	"io"
	"net"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"golang.org/x/net/http2"
)

// A server whose clock for the deadline is ahead resets the stream: the caller
// sees its deadline, not a server that is away.
func TestGRPCServerResets(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		preface := make([]byte, len(http2.ClientPreface))
		_, _ = io.ReadFull(conn, preface)
		fr := http2.NewFramer(conn, conn)
		_ = fr.WriteSettings()
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				return
			}
			if _, ok := f.(*http2.HeadersFrame); ok {
				_ = fr.WriteRSTStream(f.Header().StreamID, http2.ErrCodeCancel)
			}
		}
	}()
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", ln.Addr().String(), "dev-alice")))
	t.Cleanup(func() { ln.Close(); e.tr.Close(); <-done })
	err = dialGRPC(t, e.addr, "svc:1").Invoke(shortly(t), "/t.T/Unary", wrapperspb.String(""), &wrapperspb.StringValue{})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}
