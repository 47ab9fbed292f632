package tunnel

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// Why there is no connection is said once, and not by each library on the way.
func TestWhyThereIsNoConnection(t *testing.T) {
	t.Parallel()
	closed := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		return l.Addr().String()
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0") // it speaks no TLS
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: patience}
	served := make(chan error, 1)
	go func() { served <- server.Serve(plain) }()
	defer func() { _ = server.Close(); <-served }()
	for name, c := range map[string]struct {
		addr, proxy string
		want        string
	}{
		"nobody listens":        {closed(), "", "connection refused"},
		"no proxy listens":      {"relay.test:443", closed(), "the proxy: connection refused"},
		"something without TLS": {plain.Addr().String(), "", "http: server gave HTTP response to HTTPS client"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := AgentConfig{URL: "wss://" + c.addr, Install: "install-1", Host: "laptop", Log: logger(t), Handle: func(context.Context, Claim, Header, Stream) {}}
			if c.proxy != "" {
				conf.Proxy = &url.URL{Scheme: "http", Host: c.proxy}
			}
			a, err := newAgent(conf, quick())
			if err != nil {
				t.Fatal(err)
			}
			_, err = a.Probe(t.Context())
			var dial *DialError
			if !errors.As(err, &dial) || err.Error() != c.want {
				t.Errorf("%v", err)
			}
		})
	}
	// Who waits for a claim hears of it, too, and can still tell that the wait had an end.
	a, err := newAgent(AgentConfig{URL: "wss://" + closed(), Install: "install-1", Host: "laptop", Log: logger(t),
		Handle: func(context.Context, Claim, Header, Stream) {}}, quick())
	if err != nil {
		t.Fatal(err)
	}
	tried := make(chan struct{}, 1)
	a.conf.Notify = func(e Event) {
		if e.What == Retrying {
			select {
			case tried <- struct{}{}:
			default:
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-tried
	wait, stop := context.WithTimeout(ctx, 10*time.Millisecond)
	defer stop()
	if _, err := a.Claim(wait, orders(HTTP)); err == nil || err.Error() != "connection refused" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim = %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
