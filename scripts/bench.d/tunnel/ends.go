//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"lane/tunnel"
)

// ends are what this program is when it is started as one. Each lives until its
// input ends. A relay prints where the tunnel comes in, its pin, and where what is
// for the laptop comes in.
var ends = map[string]func(args []string) error{
	"lane-relay":   laneRelay,
	"lane-laptop":  laneLaptop,
	"yamux-relay":  yamuxRelay,
	"yamux-laptop": yamuxLaptop,
}

// inputEnds returns a context that ends with the input.
func inputEnds() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	return ctx
}

func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// open lets everybody in: what is measured is behind that.
type open struct{}

func (open) Authenticate(context.Context, tunnel.Credentials) (tunnel.Identity, error) {
	return tunnel.Identity{Subject: "bench"}, nil
}
func (open) Up(context.Context, tunnel.Holder, tunnel.Claim) (map[string]string, error) {
	return nil, nil
}
func (open) State(context.Context, tunnel.Holder, tunnel.Claim, tunnel.State) {}
func (open) Lost(context.Context, tunnel.Holder, tunnel.Claim)                {}
func (open) Gone(context.Context, tunnel.Holder, tunnel.Claim, tunnel.Reason) {}
func (open) Out(context.Context, tunnel.Holder, tunnel.Out) (net.Conn, error) {
	return nil, errors.New("no way out")
}

func laneRelay([]string) error {
	cert, err := certificate()
	if err != nil {
		return err
	}
	r, err := tunnel.NewRelay(tunnel.RelayConfig{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Authority: open{}})
	if err != nil {
		return err
	}
	in, err := listen()
	if err != nil {
		return err
	}
	front, err := listen()
	if err != nil {
		return err
	}
	ctx := inputEnds()
	go serve(front, func(c net.Conn) {
		s, err := r.Dial(ctx, "bench", "app", tunnel.Header{})
		if err != nil {
			reset(c)
			return
		}
		_ = tunnel.Join(ctx, s, c)
	})
	fmt.Println(in.Addr(), tunnel.Fingerprint(cert.Certificate[0]), front.Addr())
	return r.Serve(ctx, in)
}

func laneLaptop(args []string) error {
	a, err := tunnel.NewAgent(tunnel.AgentConfig{
		URL: "wss://" + args[0], Pin: args[1], Install: "bench", Host: "bench",
		Handle: func(ctx context.Context, _ tunnel.Claim, _ tunnel.Header, s tunnel.Stream) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", args[2])
			if err != nil {
				s.Abort(502, err.Error())
				return
			}
			_ = tunnel.Join(ctx, s, c)
		},
	})
	if err != nil {
		return err
	}
	ctx := inputEnds()
	go func() {
		if _, err := a.Claim(ctx, tunnel.Claim{ID: "app", Lane: "bench", Service: "app", Kind: tunnel.TCP}); err != nil {
			fmt.Fprintln(os.Stderr, "claim:", err)
		}
	}()
	return a.Run(ctx)
}

// yamuxConfig is yamux's own, or with the window that was measured to be best.
func yamuxConfig(window string) *yamux.Config {
	c := yamux.DefaultConfig()
	if window == "8MiB" {
		c.MaxStreamWindowSize = 8 << 20
	}
	return c
}

func yamuxRelay(args []string) error {
	cert, err := certificate()
	if err != nil {
		return err
	}
	in, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	front, err := listen()
	if err != nil {
		return err
	}
	fmt.Println(in.Addr(), tunnel.Fingerprint(cert.Certificate[0]), front.Addr())
	c, err := in.Accept()
	if err != nil {
		return err
	}
	s, err := yamux.Server(c, yamuxConfig(args[0]))
	if err != nil {
		return err
	}
	go serve(front, func(c net.Conn) {
		st, err := s.OpenStream()
		if err != nil {
			reset(c)
			return
		}
		both(st, c)
	})
	<-inputEnds().Done()
	return nil
}

func yamuxLaptop(args []string) error {
	c, err := tls.Dial("tcp", args[0], &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	s, err := yamux.Client(c, yamuxConfig(args[3]))
	if err != nil {
		return err
	}
	go func() {
		for {
			st, err := s.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				c, err := net.Dial("tcp", args[2])
				if err != nil {
					_ = st.Close()
					return
				}
				both(st, c)
			}()
		}
	}()
	<-inputEnds().Done()
	return nil
}

func serve(l net.Listener, each func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go each(c)
	}
}

func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// both is the plainest copy of two directions.
func both(st *yamux.Stream, c net.Conn) {
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(st, c)
		_ = st.Close()
	})
	wg.Go(func() {
		_, _ = io.Copy(c, st)
		_ = c.(*net.TCPConn).CloseWrite()
	})
	wg.Wait()
	_ = c.Close()
}
