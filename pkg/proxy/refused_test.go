package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// refusals are addresses at which a POST is answered with an error of ours, before
// anybody has read its body: each front has one.
func refusals(t *testing.T) []struct{ name, addr, before, line string } {
	t.Helper()
	e := newEnv(t, nil)
	s := newEntrance(t, "entry: order-service\nrules: []\n", Route{Service: "order-service", Prefix: "/orders"})
	closed := closedAddr(t)
	e.reg.set(service("svc", instance("s", closed, "dev-alice")))
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{closed}})
	rejects := e.guard(GuardConfig{Lane: "dev-bob", Service: "svc", InstanceID: "g", Local: []string{closed}, Reject: true})
	return []struct{ name, addr, before, line string }{
		{"no route", s.gateway, "", ""},
		{"a closed port", e.addr, "", "http://svc"},
		{"a closed port, by net/http", e.addr, tunnelled, "http://svc"},
		{"a closed port, inside CONNECT", e.addr, tunnelled, ""},
		{"no service", e.addr, "", "http://no-such-service"},
		{"a closed port behind the guard", guard, "", ""},
		{"the guard rejects", rejects, "", ""},
	}
}

const refusedHead = "POST %s/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n"

// An error of ours comes before the body that it is about. Where the rest of the body
// is there, the connection is kept; else the answer says that it ends, and it ends
// with nothing lost of the answer.
func TestRefusedBeforeTheBody(t *testing.T) {
	for _, at := range refusals(t) {
		head := fmt.Sprintf(refusedHead, at.line)
		byNetHTTP := at.line != "" && at.before != "" // it may say that it ends in any case
		for name, c := range map[string]struct {
			text, rest string
			kept       bool
		}{
			"all of it":               {"Content-Length: 5\r\n\r\n12345", "", true},
			"in chunks":               {"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n", "", true},
			"half of it":              {"Content-Length: 10\r\n\r\n12345", "67890", false},
			"half of it, in chunks":   {"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n", "0\r\n\r\n", false},
			"nothing of much":         {"Content-Length: 4000000\r\n\r\n", strings.Repeat("x", 4_000_000), false},
			"nothing of many chunks":  {"Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("5\r\n12345\r\n", 200_000) + "0\r\n\r\n", false},
			"a chunk that is not one": {"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "", false},
		} {
			t.Run(at.name+"/"+name, func(t *testing.T) {
				conn, br := raw(t, at.addr, at.before)
				connected(t, br, at.before)
				if _, err := io.WriteString(conn, head+c.text); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(br, &http.Request{Method: "POST"})
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode < 400 || resp.Header.Get("X-Lane-Error") == "" || !bytes.Contains(body, []byte(`"code"`)) {
					t.Errorf("%s %q %v %v", resp.Status, body, resp.Header, err)
				}
				if resp.Close == c.kept && !(byNetHTTP && resp.Close) {
					t.Errorf("Connection: close is %v", resp.Close)
				}
				if !resp.Close {
					// Another request is answered, and it is nobody's rest. The status
					// may be another one: who has just refused a connection is skipped.
					_, _ = io.WriteString(conn, head+"\r\n")
					if a := response(t, br, "POST"); a.status < 404 || a.header.Get("X-Lane-Error") == "" {
						t.Errorf("then %+v", a)
					}
					return
				}
				// Who goes on all the same is heard to its end: no broken pipe.
				if _, err := io.WriteString(conn, c.rest); err != nil {
					t.Errorf("the rest: %v", err)
				}
				if _, err := br.ReadByte(); err != io.EOF {
					t.Errorf("then %v", err)
				}
			})
		}
	}
}

// A client of net/http has the answer, however large its body is.
func TestRefusedUploads(t *testing.T) {
	for _, at := range refusals(t) {
		if at.before != "" {
			continue
		}
		t.Run(at.name, func(t *testing.T) {
			tr := &http.Transport{Proxy: nil}
			defer tr.CloseIdleConnections()
			for i := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), testLimit)
				defer cancel()
				size := []int{10, 100_000, 3_000_000}[i%3]
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at.addr+"/", &zeros{int64(size)})
				if err != nil {
					t.Fatal(err)
				}
				if i%2 == 0 {
					req.ContentLength = int64(size)
				}
				req.Header.Set("x-lane-tag", "dev-alice")
				if at.line != "" {
					req.URL.Opaque, req.Host = at.line+"/", "svc"
				}
				res, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatalf("%d, %d bytes: %v", i, size, err)
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.Header.Get("X-Lane-Error") == "" || len(body) == 0 {
					t.Errorf("%d, %d bytes: %s %v %v", i, size, res.Status, res.Header, err)
				}
			}
		})
	}
}
