package proxy

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"lane/pkg/lane"
)

// FuzzTarget: what net/http accepts as a target goes on as it came, but that an
// authority in front of it goes, and that bytes which no path may have are
// escaped behind a double slash.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "/a%2Fb;c?d=e&f", "//a//b", "/a|b", "/?", "/#", "*", "http://h", "http://h?x", "http://h/a?b?c", "//a|b", "/a\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + uri + " HTTP/1.1\r\nHost: svc\r\n\r\n")))
		if err != nil || r.RequestURI != uri || r.Host == "" {
			return
		}
		tg := targetOf(r)
		if tg == "" && !strings.Contains(uri, "://") {
			return
		}
		got := tg.url("http", "10.0.0.1:80", r.Host, false).RequestURI()
		if strings.HasPrefix(got, "http:") {
			t.Errorf("%q would be sent as %q", uri, got)
		}
		if uri[0] == '/' && got != uri && !strings.HasPrefix(uri, "//") {
			t.Errorf("%q would be sent as %q", uri, got)
		}
		if got != "*" && !strings.HasPrefix(got, "/") {
			t.Errorf("%q is no origin form: %q", uri, got)
		}
		if strings.ContainsAny(got, " \r\n\x00") {
			t.Errorf("%q would be sent as %q", uri, got)
		}
	})
}

// A CONNECT whose target is a path is a request to nobody: no front takes it for one
// to its service, whatever its tag, and nothing behind it is read. Its twin, which
// names a host, is told what the front is; what a GET of the path is, the front's own
// tests say.
func TestConnectToAPath(t *testing.T) {
	gateway, guard, sidecar := newEntrance(t, entryRules), newGuarded(t, nil), newCompanion(t, false)
	for _, at := range []struct {
		front, addr string
		log         *env
		twin        int
	}{
		{"gateway", gateway.gateway, gateway.env, http.StatusBadRequest},
		{"guard", guard.addr, guard.env, http.StatusMethodNotAllowed},
		{"sidecar", sidecar.inbound, sidecar.env, http.StatusBadRequest},
		{"forward", guard.env.addr, guard.env, http.StatusOK},
	} {
		for _, target := range []string{"/x", "/", "*", "order-service:80/x", "http://order-service/x"} {
			t.Run(at.front+" "+target, func(t *testing.T) {
				before := at.log.log.Last()
				_, br := raw(t, at.addr, "CONNECT "+target+" HTTP/1.1\r\nHost: order-service\r\nx-lane-tag: dev-alice\r\n\r\nGET /behind HTTP/1.1\r\nHost: order-service\r\n\r\n")
				a := response(t, br, "GET")
				if a.status != http.StatusBadRequest || a.header.Get(lane.HeaderError) != string(CodeBadRequest) || !strings.Contains(a.body, "a CONNECT names a host and a port") {
					t.Errorf("%d %v %s", a.status, a.header, a.body)
				}
				if rest, err := io.ReadAll(br); len(rest) > 0 {
					t.Errorf("then came %q, %v", rest, err)
				}
				if ex := at.log.exchange(before + 1); ex.Code != CodeBadRequest || ex.Addr != "" {
					t.Errorf("recorded %+v", ex)
				}
			})
		}
		_, br := raw(t, at.addr, "CONNECT order-service:80 HTTP/1.1\r\nHost: order-service\r\nx-lane-tag: dev-alice\r\n\r\n")
		resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
		if err != nil || resp.StatusCode != at.twin || at.twin != http.StatusOK && resp.Header.Get(lane.HeaderError) != string(CodeBadTarget) {
			t.Errorf("%s: CONNECT to a host: %v %v", at.front, resp, err)
		}
	}
	if n := gateway.base.hits.Load() + gateway.alice.hits.Load() + guard.local.hits.Load() + guard.base.hits.Load(); n != 0 {
		t.Errorf("servers were called %d times", n)
	}
}
