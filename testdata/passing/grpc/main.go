// The program around the gRPC of docs/passing.md: each of its calls makes one, with or
// without the interceptors, and ends as that one did.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"

	"passing/onward"
)

type app struct {
	health.UnimplementedHealthServer
	with, bare health.HealthClient
}

func (a *app) Check(ctx context.Context, req *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	c := a.with
	if req.Service == "/bare" {
		c = a.bare
	}
	if req.Service != "/later" {
		return c.Check(ctx, req)
	}
	stream, err := c.Watch(ctx, req)
	if err != nil {
		return nil, err
	}
	return stream.Recv()
}

func client(opts ...grpc.DialOption) health.HealthClient {
	c, err := grpc.NewClient(os.Getenv("NEXT"), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())...)
	if err != nil {
		panic(err)
	}
	return health.NewHealthClient(c)
}

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := grpc.NewServer()
	health.RegisterHealthServer(s, &app{with: client(grpc.WithUnaryInterceptor(onward.Unary), grpc.WithStreamInterceptor(onward.Stream)), bare: client()})
	fmt.Println(ln.Addr().(*net.TCPAddr).Port)
	panic(s.Serve(ln))
}
