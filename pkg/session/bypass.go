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
	// bypassLooks is how often it is judged: a command may begin to call late.
	bypassLooks = 12
)

// Glances is how often a command is looked at before its n-th judgement, in equal
// distances: often in the first minute, for a client that opens a connection for each
// call is seen only while one is open, and what looks costs some milliseconds.
func Glances(n int) int {
	if n < 6 {
		return 10
	}
	return 1
}

// Seen is what several looks at a command have found.
type Seen struct {
	to    []netip.AddrPort
	names []string
}

// seenMost bounds what is kept: more is not told in any case.
const seenMost = 100

// Add takes what one look has found.
func (s *Seen) Add(to []netip.AddrPort, names []string) {
	for _, at := range to {
		if len(s.to) < seenMost && !slices.Contains(s.to, at) {
			s.to = append(s.to, at)
		}
	}
	for _, n := range names {
		if len(s.names) < seenMost && !slices.Contains(s.names, n) {
			s.names = append(s.names, n)
		}
	}
}

// Bypassed judges it.
func (s *Seen) Bypassed(proxy string) string { return Bypassed(s.to, s.names, proxy) }

// watchBypass looks at a command that calls others, and never through the proxy: its
// calls are not in the lane, and nothing else would say so.
func (s *session) watchBypass(ctx context.Context) error {
	every := s.o.bypass
	if every == 0 {
		every = bypassAfter
	}
	var seen Seen
	tick := time.NewTicker(every / time.Duration(Glances(0)))
	defer tick.Stop()
	for n := range bypassLooks {
		glances := Glances(n)
		tick.Reset(every / time.Duration(glances))
		for range glances {
			select {
			case <-tick.C:
			case <-s.child.Done():
				return nil
			case <-ctx.Done():
				return nil
			}
			seen.Add(s.o.Outgoing(s.child.PID()))
		}
		rows, _ := s.log.Since(0, rows)
		if slices.ContainsFunc(rows, func(e traffic.Exchange) bool { return e.Front == traffic.FrontForward }) {
			return nil
		}
		if why := seen.Bypassed(strings.TrimPrefix(s.proxyURL, "http://")); why != "" {
			s.o.Log.Warn(why)
			s.warn("%s", why)
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
	return fmt.Sprintf("the command has, or had, connections to %s%s, and none through the coloring proxy: HTTP or gRPC calls on them are not in the lane. %s",
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
