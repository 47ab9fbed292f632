//go:build unix

package cmd

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The same clients with TLS that the session opens: they trust the CA by what `lane
// run` sets, each is colored, and outside of `lane run` none of them trusts it.
func TestClientsWithTLSOpened(t *testing.T) {
	w := newClientWorld(t)
	w.env = append(w.env, "LANE_MITM=*.web.invalid,*.rpc.invalid", "LANE_TAG=dev-bob")
	w.must(t, "lane", "ca", "init")
	authority := strings.TrimSpace(string(w.must(t, "lane", "ca", "path")))
	w.must(t, "lane", "up", "dev-bob", "-d")
	t.Cleanup(func() { w.must(t, "lane", "down", "dev-bob") })
	t.Run("calls", func(t *testing.T) {
		for _, c := range w.clients {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				w.opened(t, c, authority)
			})
		}
	})
}

// opened checks a client's calls of a host that is opened.
func (w *clientWorld) opened(t *testing.T, c *client, authority string) {
	service := "web"
	if c.grpc {
		service = "rpc"
	}
	// The command of a client that is told nothing of a certificate. GnuTLS, and
	// with it Debian's wget, reads no variable.
	command := func(k call) []string {
		argv := slices.Clone(c.command(k))
		if i := slices.Index(argv, "--cacert"); i >= 0 {
			argv = slices.Delete(argv, i, i+2)
		}
		if i := slices.Index(argv, "--ca-certificate"); i >= 0 {
			argv[i+1] = authority
		}
		return argv
	}
	lane := func(k call) []string { return append([]string{"lane", "run", "--"}, command(k)...) }
	host := c.alias(service)
	w.gets(t, "lane", "dev-bob", nil, lane(call{host: host, tls: true}))
	w.gets(t, "lane", "dev-bob", w.sentBytes, lane(call{host: host, tls: true, file: w.sent}))
	// The bundle holds what the user trusted before: what stays closed works. A JVM's
	// store holds the JVM's roots, and the test's certificate is none of them.
	if c.command(call{})[0] != "java" {
		w.gets(t, "baseline", "", nil, append([]string{"lane", "run", "--"}, c.command(call{host: c.alias(service + "-tls"), tls: true})...))
	}
	for _, e := range w.record(t) {
		if strings.Contains(e.URL, host) && (e.Note != "" || !strings.HasPrefix(e.URL, "https://"+host)) {
			t.Errorf("recorded as %+v", e)
		}
	}
	// The twin: led to the proxy, and told nothing of the CA.
	if c.name == "wget" {
		return // it was told by hand
	}
	var vars []string
	for name, v := range w.vars { // of the session that opens nothing
		if name != "LANE_TAG" && name != "LANE_PROXY" {
			vars = append(vars, name+"="+strings.ReplaceAll(v, port(w.vars["LANE_PROXY"]), port(w.proxy(t))))
		}
	}
	if out, err := w.run(vars, command(call{host: host, tls: true})...); err == nil {
		t.Errorf("it trusts the CA by itself: %q", out)
	}
}

// proxy is the address of the session that opens TLS.
func (w *clientWorld) proxy(t *testing.T) string {
	var st struct{ Proxy, CA string }
	w.decode(t, &st, "lane", "status", "--json")
	if filepath.Base(st.CA) != "ca.pem" {
		t.Fatalf("%+v", st)
	}
	return st.Proxy
}

// port is the port at the end of an address.
func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
