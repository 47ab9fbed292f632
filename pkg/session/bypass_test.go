//go:build unix

package session_test

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/session"
)

func TestWhatIsSaidOfABypass(t *testing.T) {
	at := func(all ...string) (out []netip.AddrPort) {
		for _, a := range all {
			out = append(out, netip.MustParseAddrPort(a))
		}
		return out
	}
	for _, c := range []struct {
		to    []netip.AddrPort
		names []string
		want  []string // nil: nothing
	}{
		{nil, nil, nil},
		{at("127.0.0.1:5432"), []string{"node"}, nil},
		{at("10.0.0.7:8080", "127.0.0.1:7474"), []string{"node"}, nil},
		{at("10.0.0.7:8080", "127.0.0.1:5432"), []string{"sh", "node"}, []string{"10.0.0.7:8080, and none", "NODE_USE_ENV_PROXY=1"}},
		{at("10.0.0.7:8080"), []string{"java"}, []string{"JAVA_TOOL_OPTIONS"}},
		{at("10.0.0.7:8080"), []string{"python3.13"}, []string{"trust_env=True"}},
		{at("10.0.0.7:8080", "10.0.0.7:8080", "10.0.0.8:1", "10.0.0.9:1", "[fd00::1]:1"), []string{"orders"}, []string{"10.0.0.9:1 and 1 more", "ProxyFromEnvironment"}},
	} {
		got := session.Bypassed(c.to, c.names, "127.0.0.1:7474")
		if c.want == nil && got != "" {
			t.Errorf("%v: %s", c.to, got)
		}
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%v: %q, want %q", c.to, got, w)
			}
		}
	}
}

// A connection that is open for a moment is seen by one look of many, and not forgotten
// by the next; one to the proxy ends the suspicion, however short.
func TestWhatSeveralLooksSee(t *testing.T) {
	short, proxy := netip.MustParseAddrPort("10.0.0.7:8080"), netip.MustParseAddrPort("127.0.0.1:7474")
	var seen session.Seen
	seen.Add(nil, []string{"node"})
	seen.Add([]netip.AddrPort{short}, []string{"node", "sh"})
	for range 1000 {
		seen.Add(nil, nil)
	}
	if why := seen.Bypassed("127.0.0.1:7474"); !strings.Contains(why, "10.0.0.7:8080") || !strings.Contains(why, "NODE_USE_ENV_PROXY") {
		t.Errorf("%q", why)
	}
	seen.Add([]netip.AddrPort{proxy}, nil)
	if why := seen.Bypassed("127.0.0.1:7474"); why != "" {
		t.Errorf("with a connection to the proxy: %q", why)
	}
}

func TestACommandThatBypassesTheProxyIsTold(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Command = []string{"/bin/sleep", "1000"}
	o.ChildEnv = func(control.Status) []string { return nil }
	var looks atomic.Int64
	o.Outgoing = func(int) ([]netip.AddrPort, []string) {
		if looks.Add(1) == 3 { // a connection for a moment
			return []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:8080")}, []string{"node"}
		}
		return nil, []string{"node"}
	}
	r := run(t, session.LookForBypass(o, 20*time.Millisecond))
	r.up()
	eventually(t, "it is in the history", func() bool {
		st, err := r.ctl().Status(t.Context())
		return err == nil && slices.ContainsFunc(st.History, func(e control.Event) bool { return strings.Contains(e.Text, "10.0.0.7:8080") })
	})
	if err := r.ctl().Stop(t.Context(), false); err != nil {
		t.Error(err)
	}
	if err := r.wait(); err != nil {
		t.Error(err)
	}
}
