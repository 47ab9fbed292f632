package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// nest runs a part for as long as body takes: the part outlives the end of ctx,
// so that body can clean up with it, and ends when body has returned. A part
// that ends before ends body's context.
func nest(ctx context.Context, part, body func(context.Context) error) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	inner, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := part(life)
		stop()
		ended <- err
	}()
	err := body(inner)
	end()
	if failed := <-ended; failed != nil && !errors.Is(failed, context.Canceled) {
		if ctx.Err() == nil && errors.Is(err, context.Canceled) {
			err = nil // the part's end is the news
		}
		return errors.Join(failed, err)
	}
	return err
}

// listen takes a free port of this machine.
func listen() (net.Listener, error) { return listenAt("127.0.0.1:0") }

func listenAt(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on a loopback port: %w", err)
	}
	return ln, nil
}

// goodbye bounds the waiting for requests under way at the end of a server.
const goodbye = 2 * time.Second

// serveHTTP serves h on ln until ctx ends, and returns when no request runs.
func serveHTTP(ctx context.Context, ln net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Serve(ln) }()
	select {
	case err := <-stopped:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	err := srv.Shutdown(wait)
	if err != nil {
		err = srv.Close()
	}
	_ = <-stopped // it was told to end
	return err
}

// until asks ok again and again until it is true; what says what is waited for.
func until(ctx context.Context, limit time.Duration, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, limit, ctx.Err())
		}
	}
	return nil
}
