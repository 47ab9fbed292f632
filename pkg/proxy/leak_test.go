package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lane/pkg/lane"
)

// Carriers that share one header are written to it once.
func TestSharedCarrierHeader(t *testing.T) {
	carriers, err := lane.Preset("signadot")
	if err != nil {
		t.Fatal(err)
	}
	origin, heads := rawOrigin(t, okClose)
	e := newEnv(t, func(c *Config) { c.Carriers = &carriers })
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, before := range []string{"", "Baggage: user=1\r\n"} {
		_, br := raw(t, e.addr, "GET http://svc/ HTTP/1.1\r\nHost: svc\r\n"+before+"\r\n")
		if a := response(t, br, "GET"); a.status != 200 {
			t.Fatal(a)
		}
		head := <-heads
		if n := strings.Count(strings.ToLower(head), "\nbaggage:"); n != 1 || !strings.Contains(head, "lane=dev-alice") || !strings.Contains(head, "sd-routing-key=dev-alice") ||
			strings.Contains(head, "user=1") != (before != "") {
			t.Errorf("%q: arrived\n%s", before, head)
		}
	}
}

// A host outside sees nothing of ours in a head of whatever name, nor behind a
// body; what is the caller's it sees.
func TestNothingOfOursLeaks(t *testing.T) {
	long := "x-" + strings.Repeat("long-", 14) + "tag"
	for _, carriers := range []lane.Carriers{
		lane.DefaultCarriers(),
		{Header: "x-env", Member: "lane"},
		{Header: long, Aliases: []string{"x-gray-tag"}},
	} {
		origin, got := bytesOrigin(t, okBytes)
		e := newEnv(t, func(c *Config) { c.Carriers = &carriers })
		for _, at := range []struct{ before, line string }{{"", "http://" + origin}, {"CONNECT " + origin + " HTTP/1.1\r\nHost: x\r\n\r\n", "http://" + origin}, {"CONNECT " + origin + " HTTP/1.1\r\nHost: x\r\n\r\n", ""}} {
			conn, br := raw(t, e.addr, at.before)
			connected(t, br, at.before)
			ours := "X-LANE-TAG: dev-bob\r\nx-lane-hops: 1\r\n" + carriers.Header + ": dev-bob\r\n"
			fmt.Fprintf(conn, "POST %s/ HTTP/1.1\r\nHost: %s\r\n%sBaggage: a=b\r\nX-Mine: 1\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n%sX-Sum: 2\r\nHost: evil\r\nContent-Length: 7\r\n\r\n",
				at.line, origin, ours, ours)
			if a := response(t, br, http.MethodPost); a.status != 200 {
				t.Fatal(a)
			}
			text := <-got
			if text == "" { // the tunnel's, before it was known what is in it
				text = <-got
			}
			head, behind, _ := strings.Cut(strings.ToLower(text), "\r\n\r\n")
			for _, bad := range []string{"lane", "dev-bob", long} {
				if strings.Contains(head+behind, bad) {
					t.Errorf("%q: %q arrived:\n%s\n\n%s", at.line, bad, head, behind)
				}
			}
			if !strings.Contains(head, "x-mine: 1") || !strings.Contains(head, "baggage: a=b") {
				t.Errorf("%q: arrived:\n%s", at.line, head)
			}
			if !strings.HasSuffix(behind, "0\r\nx-sum: 2\r\n\r\n") {
				t.Errorf("%q: behind the body came\n%s", at.line, behind)
			}
		}
	}
}
