package proxy

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// grpcWays are the ways to the local process.
var grpcWays = []string{"direct", "guard", "proxy and guard"}

func (s *gshop) way(t *testing.T, name string) (c *grpc.ClientConn, kv []string) {
	switch name {
	case "direct":
		return dialGRPC(t, "", s.local.addr), nil
	case "guard":
		return dialGRPC(t, "", s.guardAddr), []string{"x-lane-tag", "dev-alice"}
	}
	return dialGRPC(t, s.addr, "order-service:50051"), nil
}

func TestGRPCDeadlineAndCancel(t *testing.T) {
	for _, way := range grpcWays {
		t.Run(way, func(t *testing.T) {
			t.Parallel() // the deadlines pass together
			s := newGShop(t)
			c, kv := s.way(t, way)
			endsEarly(t, s, c, kv...)
		})
	}
}

func endsEarly(t *testing.T, s *gshop, c *grpc.ClientConn, kv ...string) {
	// Connected first: the deadline is for the call, which has to arrive.
	if err := c.Invoke(shortly(t, kv...), "/t.T/Unary", str(""), &wrapperspb.StringValue{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(shortly(t, kv...), 8*time.Second)
	defer cancel()
	if err := c.Invoke(ctx, "/t.T/Wait", str(""), &wrapperspb.StringValue{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
	if err := <-s.local.ends; err == nil {
		t.Error("no end")
	}
	before := s.local.hits.Load()
	ctx, cancel = context.WithCancel(shortly(t, kv...))
	got := make(chan error, 1)
	go func() { got <- c.Invoke(ctx, "/t.T/Wait", str(""), &wrapperspb.StringValue{}) }()
	eventually(t, "the call has arrived", func() bool { return s.local.hits.Load() > before })
	cancel()
	if err := <-got; status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	if err := <-s.local.ends; !errors.Is(err, context.Canceled) {
		t.Errorf("the server saw %v", err)
	}
}
