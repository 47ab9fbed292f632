package session

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"lane/pkg/traffic"
)

const (
	// bypassAfter is how long a command may take until its first call.
	bypassAfter = 10 * time.Second
	// bypassLooks is how often it is looked at: a command may begin to call late.
	bypassLooks = 12
)

// watchBypass looks at a command that calls others, and never through the proxy: its
// calls are not in the lane, and nothing else would say so.
func (s *session) watchBypass(ctx context.Context) error {
	every := s.o.bypass
	if every == 0 {
		every = bypassAfter
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range bypassLooks {
		select {
		case <-tick.C:
		case <-s.child.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
		rows, _ := s.log.Since(0, rows)
		if slices.ContainsFunc(rows, func(e traffic.Exchange) bool { return e.Front == traffic.FrontForward }) {
			return nil
		}
		to, names := s.o.Outgoing(s.child.PID())
		if why := Bypassed(to, names, strings.TrimPrefix(s.proxyURL, "http://")); why != "" {
			s.o.Log.Warn(why)
			s.event("%s", why)
			return nil
		}
	}
	return nil
}

// Bypassed says that a command has connections, and none to the proxy; "" for one that
// has none to other machines, or one to the proxy.
func Bypassed(to []netip.AddrPort, names []string, proxy string) string {
	var past []string
	for _, at := range to {
		if at.String() == proxy {
			return ""
		}
		if text := at.String(); !at.Addr().IsLoopback() && !slices.Contains(past, text) {
			past = append(past, text)
		}
	}
	if len(past) == 0 {
		return ""
	}
	more := ""
	if n := len(past); n > 3 {
		past, more = past[:3], fmt.Sprintf(" and %d more", n-3)
	}
	return fmt.Sprintf("the command has connections to %s%s, and none through the coloring proxy: HTTP or gRPC calls on them are not in the lane. %s",
		strings.Join(past, ", "), more, proxySwitch(names))
}

// proxySwitch is what the runtimes behind these processes need to use a proxy.
func proxySwitch(names []string) string {
	for _, s := range []struct{ runtime, text string }{
		{"node", "Node uses it with NODE_USE_ENV_PROXY=1, which is set, since 22.21 and 24.5; an agent of its own needs proxyEnv: process.env"},
		{"java", "Java uses it by JAVA_TOOL_OPTIONS, which is set; a client with a proxy of its own, or with none on purpose, does not"},
		{"python", "in Python, aiohttp uses it with trust_env=True; requests, httpx and urllib need nothing"},
	} {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, s.runtime) }) {
			return s.text
		}
	}
	return "In Go, an http.Transport of its own uses it with Proxy: http.ProxyFromEnvironment; docs/clients.md has what others need"
}
