package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lane/pkg/traffic"
)

// sendBack answers with what it was sent, with its length where it knows it.
func sendBack(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex() // no such thing in HTTP/2, and no need
	if r.ContentLength > 0 {
		w.Header()["Content-Length"] = r.Header["Content-Length"]
	}
	_, _ = io.Copy(w, r.Body)
}

// TestBodiesAreKept: by each way on which a body may go, of each length and
// framing; and none of it without the wish for it.
func TestBodiesAreKept(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 40_000) // 640,000: in many pieces
	for _, keep := range []bool{true, false} {
		origin := newBackend(t, "origin", sendBack)
		h2 := httptest.NewUnstartedServer(http.HandlerFunc(sendBack))
		h2.Config.Protocols = new(http.Protocols)
		h2.Config.Protocols.SetUnencryptedHTTP2(true)
		h2.Start()
		t.Cleanup(h2.Close)
		e := newEnv(t, func(c *Config) { c.KeepBodies = keep })
		guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "s", Local: []string{origin.addr()}})
		guardH2 := e.guard(GuardConfig{Lane: "dev-alice", Service: "h2", InstanceID: "h", Local: []string{strings.TrimPrefix(h2.URL, "http://")}})
		e.reg.set(service("svc", instance("s", origin.addr(), "dev-alice")))
		direct := &http.Transport{DisableCompression: true}
		t.Cleanup(direct.CloseIdleConnections)
		over2 := &http.Transport{Protocols: new(http.Protocols)}
		over2.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(over2.CloseIdleConnections)
		seq := uint64(0)
		for _, way := range []struct {
			name, url string
			c         *http.Client
		}{
			{"forward", "http://svc/", e.client()},
			{"guard", "http://" + guard + "/", &http.Client{Transport: direct, Timeout: testLimit}},
			{"HTTP/2", "http://" + guardH2 + "/", &http.Client{Transport: over2, Timeout: testLimit}},
			{"RoundTrip", "http://svc/", &http.Client{Transport: e.tr, Timeout: testLimit}},
		} {
			for _, b := range []struct {
				name string
				body []byte
			}{{"none", nil}, {"short", []byte("a\x00b")}, {"as long as is kept", long[:traffic.MaxBody]}, {"long", long}} {
				for _, chunked := range []bool{false, true} {
					var body io.Reader = bytes.NewReader(b.body)
					if b.body == nil {
						body = nil
					} else if chunked {
						body = io.MultiReader(body)
					}
					a := do(t, way.c, "POST", way.url, http.Header{"X-Lane-Tag": {"dev-alice"}}, body)
					if a.body != string(b.body) {
						t.Errorf("%s, %s: %d bytes came back", way.name, b.name, len(a.body))
					}
					seq++
					ex := e.exchange(seq)
					for side, got := range map[string]*traffic.Body{"request": ex.ReqBody, "response": ex.ResBody} {
						switch {
						case !keep || b.body == nil:
							if got != nil {
								t.Errorf("%s, %s: the %s has a body of %d bytes", way.name, b.name, side, len(got.Bytes))
							}
						case got == nil:
							t.Errorf("%s, %s, chunked %v: the %s has no body", way.name, b.name, chunked, side)
						case !bytes.Equal(got.Bytes, b.body[:min(len(b.body), traffic.MaxBody)]) || got.Cut != (len(b.body) > traffic.MaxBody):
							t.Errorf("%s, %s, chunked %v: of the %s %d bytes were kept, cut %v", way.name, b.name, chunked, side, len(got.Bytes), got.Cut)
						}
					}
				}
			}
		}
	}
}
