//go:build linux

package faults

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var cycleCount = numberFlag("cycles", 10, 500, "how many sessions come and go; 0 is the form's own number")

// use is what a process takes.
type use struct{ rssKB, files, threads int }

func useOf(t *testing.T, pid int) use {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	b, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) int {
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, name+":"); ok {
				n, _ := strconv.Atoi(strings.Fields(v)[0])
				return n
			}
		}
		return 0
	}
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	return use{field("VmRSS"), len(fds), field("Threads")}
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ `)

// goroutines ends a program by the signal at which it tells them, and counts them.
func (p *program) goroutines() int {
	p.t.Helper()
	p.signal(syscall.SIGQUIT)
	p.wait()
	return len(goroutine.FindAllString(p.err.String(), -1))
}

// Sessions come and go beside others that stay: those take no more than before.
func TestSoak(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{})
	w.openGateway()
	bobs := w.desk("bob")
	// What stays beside the gateway: another session, and a sidecar.
	stay := func() (map[string]*program, string) {
		s := start(t, bobs, "up", bob, "-s", "stock="+w.local.port(), "--plain")
		await(t, "the other session is up", func() bool { return isUp(bobs, s.pid()) })
		c := start(t, w.desk("sidecar"), "sidecar", "--service", "orders", "--app", w.orders.addr(), "--listen", "127.0.0.1:0", "--outbound", "127.0.0.1:0", "--admin", "")
		var at string
		await(t, "the sidecar is up", func() bool {
			at = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(c.out.String())
			return at != ""
		})
		return map[string]*program{"session": s, "sidecar": c}, at
	}
	long, _ := stay()
	long["gateway"] = w.gateway
	w.remember()
	n := cycleCount()
	cycle := func() {
		w.up()
		all := w.streams()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		c := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
		// The gateway hears of many changes in a row no faster than four a second.
		await(t, "the gateway knows the session", func() bool { return all[0].send(ctx, c) == (outcome{}) })
		for i := range all[:5] {
			if o := all[i].send(ctx, c); o != (outcome{}) {
				t.Errorf("%s: %+v", all[i].name, o)
			}
		}
		w.session.signal(syscall.SIGINT)
		if code := w.session.wait(); code != 130 {
			t.Errorf("the session ended with %d", code)
		}
	}
	uses := func() map[string]use {
		out := map[string]use{}
		for name, p := range long {
			out[name] = useOf(t, p.pid())
		}
		return out
	}
	began := time.Now()
	warm := max(n/10, 2)
	for range warm {
		cycle()
	}
	before := uses()
	for range n - warm {
		if cycle(); t.Failed() {
			return
		}
	}
	took := time.Since(began)
	// A proxy keeps a connection for half a minute, to a guard that is gone too.
	awaitWithin(t, 2*time.Minute, "no more files are open than before", func() bool {
		for name, u := range uses() {
			if u.files > before[name].files+2 {
				return false
			}
		}
		return true
	})
	after := uses()
	w.asBefore(limit, "after all sessions")
	var parts []string
	for _, name := range []string{"gateway", "sidecar", "session"} {
		b, a := before[name], after[name]
		parts = append(parts, fmt.Sprintf("%s %.1f → %.1f MB, %d → %d files, %d → %d threads", name, float64(b.rssKB)/1024, float64(a.rssKB)/1024, b.files, a.files, b.threads, a.threads))
		if a.rssKB > b.rssKB+b.rssKB/2+16<<10 {
			t.Errorf("%s: %d kB after %d sessions, %d after %d", name, b.rssKB, warm, a.rssKB, n)
		}
	}
	// As many goroutines as in one that has just begun.
	old := map[string]int{"session": long["session"].goroutines(), "sidecar": long["sidecar"].goroutines()}
	w.asBeforeBut(bob)
	fresh, _ := stay()
	for name, was := range old {
		if now := fresh[name].goroutines(); was > now+10 {
			t.Errorf("%s: %d goroutines after %d sessions, %d in a new one", name, was, n, now)
		} else {
			parts = append(parts, fmt.Sprintf("goroutines of the %s %d, of a new one %d", name, was, now))
		}
	}
	report.line(4, fmt.Sprintf("**%d sessions up and down** in %s, beside a gateway, a sidecar and another session that stay; from the %dth to the last: %s. Catalog, KV store and sessions as before.",
		n, took.Round(time.Second), warm, strings.Join(parts, "; ")))
}

// asBeforeBut waits until nothing of a lane is left.
func (w *world) asBeforeBut(lane string) {
	w.t.Helper()
	await(w.t, lane+" is gone", func() bool {
		left, err := w.leftOf(lane, "none")
		return err == nil && len(left) == 0
	})
}
