package cmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"lane/pkg/consul/dev"
	"lane/pkg/session"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

type registryOptions struct {
	listen string
}

func newRegistryCmd(f *factory) *cobra.Command {
	o := &registryOptions{}
	c := &cobra.Command{
		Use:   "registry",
		Short: "Run an embedded registry that speaks Consul's HTTP API",
		Long: `Run a registry on this machine that speaks Consul's HTTP API, for a laptop alone,
for demos and for tests. It keeps everything in memory, has no access control,
and answers only requests that name it by an address of this machine.`,
		Example: `  lane registry
  CONSUL_HTTP_ADDR=127.0.0.1:8500 lane up dev-alice -s order-service=8080`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return runRegistry(c.Context(), f, o) },
	}
	addFlag(c, &o.listen, "listen", "127.0.0.1:8500", anAddress, "address to listen on; port 0 takes a free one")
	return c
}

func runRegistry(ctx context.Context, f *factory, o *registryOptions) error {
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return &session.PortError{What: "the registry", Addr: o.listen, From: "--listen", Err: err}
	}
	if ip, err := netip.ParseAddrPort(ln.Addr().String()); err == nil && !ip.Addr().IsLoopback() {
		fmt.Fprintln(f.io.Err, "lane: this registry has no access control, and other machines can reach it")
	}
	if _, err := fmt.Fprintf(f.io.Out, "registry at %s\n", reached(ln.Addr().String())); err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := serveRegistry(ctx, ln); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// serveRegistry serves an embedded registry on ln until ctx ends.
func serveRegistry(ctx context.Context, ln net.Listener) error {
	reg := dev.New(dev.Options{})
	parts, ctx := errgroup.WithContext(ctx)
	srv := &http.Server{Handler: reg, ReadHeaderTimeout: 10 * time.Second}
	parts.Go(func() error {
		if err := reg.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	parts.Go(func() error {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	parts.Go(func() error {
		<-ctx.Done()
		return srv.Close() // a registry that ends takes its readers along
	})
	return parts.Wait()
}
