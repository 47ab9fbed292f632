package relay_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/relay"
	"lane/pkg/token"
	"lane/tunnel"
)

// Who runs into a limit is told which, and so is whoever watches the relay, in its
// figures and, not for each time, in the audit log. Others are not held up.
func TestLimitsAreToldAndCounted(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", func(o *relay.Options) { o.Limits = tunnel.Limits{Agents: 1, Claims: 1, Volume: 64 << 10} })
	g := w.grant(nil)
	text := w.token(g)
	l := w.laptop(r.addr, text, "box", says(t, strings.Repeat("x", 100)))
	at := l.hold(w.claim())["address"]
	more := w.claim()
	more.ID, more.Lane = "two", "dev-shared"
	for range 20 {
		if _, err := l.try(more); refusal(err) != http.StatusTooManyRequests || !strings.Contains(err.Error(), "1 claim of one tunnel is the limit") {
			t.Fatalf("a second claim: %v", err)
		}
	}
	second := w.laptop(r.addr, text, "desk", "127.0.0.1:1")
	if err := <-second.over; refusal(err) != http.StatusTooManyRequests || !strings.Contains(err.Error(), "alice has 1 tunnel here already") {
		t.Errorf("a second tunnel: %v", err)
	}
	bob := w.laptop(r.addr, w.token(w.grant(func(g *token.Grant) { g.User = "bob" })), "den", says(t, "bob's"))
	bob.hold(more)
	defer bob.release("two")
	by := r.figures.Limited()
	if by["claims"] != 20 || by["tunnels"] != 1 || by["bytes"] != 0 || len(by) != len(tunnel.AllLimits()) {
		t.Errorf("counted %v", by)
	}
	lines := r.audit.lines("limited")
	if n := len(lines); n != 2 || lines[0]["user"] != "alice" || lines[0]["limit"] != "claims" || lines[0]["times"] != 1.0 || lines[0]["token"] != g.ID {
		t.Errorf("the audit log: %v", lines)
	}

	// A token that has moved all that it may: its instance goes first, then its tunnel.
	for range 10_000 {
		if body := get(at, w.lane); !strings.HasPrefix(body, "xxx") {
			break
		}
	}
	l.happened(tunnel.Disconnected, 0)
	w.nothing("when the tunnel ends")
	if err := <-l.over; refusal(err) != http.StatusUnauthorized || !strings.Contains(err.Error(), "has moved 65536 bytes") {
		t.Errorf("Run = %v", err)
	}
	if gone := r.audit.lines("gone"); len(gone) != 1 || gone[0]["why"] != "not allowed any more" {
		t.Errorf("the audit log: %v", gone)
	}
	var moved uint64
	for _, tr := range r.figures.Traffic() {
		if tr.Subject == "alice" && tr.Host == "box-host" {
			moved = tr.In + tr.Out
		}
	}
	if moved < 64<<10 {
		t.Errorf("traffic %+v", r.figures.Traffic())
	}
}

// Over the rate a download goes slower, and comes whole.
func TestADownloadOverTheRateComesWhole(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", func(o *relay.Options) { o.Limits = tunnel.Limits{Rate: 128 << 10} })
	const much = 768 << 10 // 256 KiB go at once; a busy machine is quicker than the rest, too
	l := w.laptop(r.addr, w.token(w.grant(nil)), "box", says(t, strings.Repeat("x", much)))
	at := l.hold(w.claim())["address"]
	req, err := http.NewRequest(http.MethodGet, "http://"+at+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-lane-tag", w.lane)
	res, err := direct.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); n != much || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if r.figures.Limited()["byte_rate"] == 0 {
		t.Errorf("%v", r.figures.Limited())
	}
	if n := len(r.audit.lines("limited")); n != 1 {
		t.Errorf("%d lines:\n%s", n, fmt.Sprint(r.audit))
	}
}

// Who has no token can knock as often as he likes: he is counted, and cannot fill the disk.
func TestKnocksDoNotFillTheAuditLog(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	knock := func() {
		req, err := http.NewRequest(http.MethodGet, "https://"+r.addr+"/tunnel/v1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Lane-Tunnel", `{"v":1,"part":"control","agent":"a","install":"i","host":"h","generation":1}`)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Fatal(res.Status)
		}
	}
	const knocks = 500
	began := time.Now()
	for range knocks {
		knock()
	}
	most := 61 + int(time.Since(began)/time.Second)
	if n := len(r.audit.lines("turned away")); n < 60 || n > most {
		t.Errorf("%d lines, want 60 to %d", n, most)
	}
	if n := r.figures.Refused(); n != knocks {
		t.Errorf("%d were counted", n)
	}
	w.eventually("how many were not written down", func() bool {
		knock()
		var all float64
		for _, line := range r.audit.lines("turned away") {
			n, _ := line["unsaid"].(float64)
			all += n + 1
		}
		return all >= knocks
	})
}
