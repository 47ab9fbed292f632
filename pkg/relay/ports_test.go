package relay_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
	"lane/pkg/relay"
	"lane/pkg/token"
	"lane/pkg/traffic"
)

// A relay that could give no claim a port says so at its start, and not to the first
// laptop. With a free one among those in use it starts.
func TestARelayWithoutAPortDoesNotStart(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	for name, c := range map[string]struct{ advertise, want string }{
		"every port is in use": {"127.0.0.1", "every port of --ports"},
		"another's address":    {"192.0.2.1", "--advertise has to be an address of this machine"},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		client := open(t, w.addr)
		err = relay.Run(t.Context(), relay.Options{Listener: ln, TLS: &tls.Config{Certificates: []tls.Certificate{w.cert}}, Client: client,
			Watcher: consul.NewWatcher(client, consul.WatchOptions{}), Verifier: token.NewVerifier(nil, time.Now), Name: "one",
			Advertise: netip.MustParseAddr(c.advertise), Ports: relay.Ports{First: port, Last: port}, Policy: lane.DefaultPolicy(),
			Log: traffic.NewLog(1), Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.relay("two", func(o *relay.Options) { o.Ports = relay.Ports{First: port, Last: min(port+50, 65535)} }).end()
}
