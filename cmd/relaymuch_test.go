//go:build unix

package cmd

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// bigTransfer is how much goes up and down: 128 MiB, or as many MiB as LANE_TEST_TRANSFER
// says. What a process holds does not depend on it, so more proves no more.
func bigTransfer() int64 {
	if n, err := strconv.ParseInt(os.Getenv("LANE_TEST_TRANSFER"), 10, 64); err == nil {
		return n << 20
	}
	return 128 << 20
}

// noise is n bytes that do not repeat; sum is theirs once all are read.
type noise struct {
	left  int64
	block []byte
	rest  []byte
	n     uint64
}

func newNoise(n int64, seed byte) *noise {
	s := &noise{left: n, block: make([]byte, 256<<10)}
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(s.block)
	return s
}

func (s *noise) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if len(s.rest) == 0 {
		s.n++
		binary.BigEndian.PutUint64(s.block, s.n)
		s.rest = s.block
	}
	n := copy(p[:min(int64(len(p)), s.left)], s.rest)
	s.rest, s.left = s.rest[n:], s.left-int64(n)
	return n, nil
}

func (s *noise) sum() string {
	h := sha256.New()
	_, _ = io.Copy(h, s)
	return hex.EncodeToString(h.Sum(nil))
}

// tally counts what is written to it.
type tally struct{ n atomic.Int64 }

func (t *tally) Write(p []byte) (int, error) {
	t.n.Add(int64(len(p)))
	return len(p), nil
}

// Whatever is sent through a relay's process, its guard, the tunnel, the laptop's process
// and its guard comes whole, and neither process holds more for it: not for a big file, not
// for readers that do not read, not for a thousand callers at once.
func TestMuchThroughARelay(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.instance("orders", "orders-base", f.app("baseline").addr, nil)
	var inside, most atomic.Int64
	var sent tally
	letGo := make(chan struct{})
	local := f.serve(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/up":
			h := sha256.New()
			n, err := io.Copy(h, r.Body)
			fmt.Fprintf(w, "%d %x %v", n, h.Sum(nil), err)
		case "/down":
			n, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
			_, _ = io.Copy(w, io.TeeReader(newNoise(n, 2), &sent)) // whoever reads it may leave
		case "/wait":
			now := inside.Add(1)
			defer inside.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			<-letGo
			_, _ = io.WriteString(w, "laptop")
		default:
			_, _ = io.WriteString(w, "laptop")
		}
	})
	_, port, _ := strings.Cut(local, ":")
	relay := f.relay()
	up := f.laptop(relay, relay.addr, f.token("alice", "dev-alice")).lane("dev-alice", "-s", "orders="+port, "--register", "shared")
	at := f.stands("orders", "dev-alice")

	tr := &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 8}
	t.Cleanup(tr.CloseIdleConnections)
	send := func(t *testing.T, ctx context.Context, path string, body io.Reader) *http.Response {
		t.Helper()
		method := http.MethodGet
		if body != nil {
			method = http.MethodPost
		}
		req, err := http.NewRequestWithContext(ctx, method, "http://"+at+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-lane-tag", "dev-alice")
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	goesUp := func(t *testing.T, n int64) {
		t.Helper()
		res := send(t, t.Context(), "/up", newNoise(n, 1))
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if want := fmt.Sprintf("%d %s <nil>", n, newNoise(n, 1).sum()); string(b) != want || err != nil {
			t.Errorf("up: %s (%v), want %s", b, err, want)
		}
	}
	comesDown := func(t *testing.T, n int64) {
		t.Helper()
		res := send(t, t.Context(), "/down?n="+strconv.FormatInt(n, 10), nil)
		h := sha256.New()
		got, err := io.Copy(h, res.Body)
		_ = res.Body.Close()
		if want := newNoise(n, 2).sum(); got != n || hex.EncodeToString(h.Sum(nil)) != want || err != nil {
			t.Errorf("down: %d bytes, %x (%v), want %d, %s", got, h.Sum(nil), err, n, want)
		}
	}
	// held is the most that a process has ever had in memory, in MiB.
	held := func(p *process) int {
		n, ok := p.use("VmHWM")
		if !ok {
			return 0 // nothing tells it there
		}
		return n >> 10
	}
	grows := func(t *testing.T, what string, by int, during func()) {
		t.Helper()
		was := []int{held(relay.process), held(up)}
		during()
		for i, p := range []*process{relay.process, up} {
			name := []string{"the relay", "the laptop"}[i]
			now := held(p)
			t.Logf("%s: %s held %d MiB at most before, %d since", what, name, was[i], now)
			if now-was[i] > by*raceMemory {
				t.Errorf("%s: %s held %d MiB at most before, and %d since", what, name, was[i], now)
			}
		}
	}
	free := func() {
		f.eventually("no stream is left", func() bool { return f.metric(relay.admin, "lane_relay_streams") == 0 })
	}
	n := bigTransfer()
	goesUp(t, 16<<20)
	comesDown(t, 16<<20)

	t.Run("up", func(t *testing.T) { grows(t, fmt.Sprintf("%d MiB up", n>>20), 64, func() { goesUp(t, n) }) })
	t.Run("down", func(t *testing.T) { grows(t, fmt.Sprintf("%d MiB down", n>>20), 64, func() { comesDown(t, n) }) })
	t.Run("who leaves midway frees the stream", func(t *testing.T) {
		tr.CloseIdleConnections()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		res := send(t, ctx, "/down?n="+strconv.Itoa(1<<40), nil)
		if _, err := io.CopyN(io.Discard, res.Body, 1<<20); err != nil {
			t.Fatal(err)
		}
		if f.metric(relay.admin, "lane_relay_streams") == 0 {
			t.Error("no stream is there while it is read")
		}
		cancel()
		_ = res.Body.Close()
		free()
	})
	t.Run("who does not read holds up nobody", func(t *testing.T) {
		// A tunnel holds 8 MiB for each, in buffers that double as they grow and are garbage
		// for a while, and never more than 256 MiB for all of them.
		const stalls, window = 8, 8 << 20
		grows(t, fmt.Sprintf("%d that do not read", stalls), 6*stalls*window>>20, func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rate := func() float64 {
				began := time.Now()
				comesDown(t, 32<<20)
				return 32 / time.Since(began).Seconds()
			}
			alone := rate()
			before := sent.n.Load()
			var stalled []io.Closer
			for range stalls {
				res := send(t, ctx, "/down?n="+strconv.Itoa(1<<40), nil)
				if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				stalled = append(stalled, res.Body)
			}
			last := int64(0)
			f.eventually("all windows are full", func() bool {
				was := last
				last = sent.n.Load() - before
				return last >= stalls*window && last == was
			})
			beside := rate() // it comes whole, and that is what counts: the machine has other work
			goesUp(t, 32<<20)
			t.Logf("%.0f MiB/s alone, %.0f beside %d that do not read", alone, beside, stalls)
			cancel()
			for _, s := range stalled {
				_ = s.Close()
			}
		})
		free()
	})
	t.Run("a thousand at once", func(t *testing.T) {
		const streams, callers = 256, 1000
		answers := make(chan string, callers)
		var wg sync.WaitGroup
		c := f.caller()
		grows(t, fmt.Sprintf("%d at once", callers), 96, func() {
			for range callers {
				wg.Go(func() {
					r, err := c.path(at, "/wait", "x-lane-tag", "dev-alice")
					switch {
					case err != nil:
						answers <- err.Error()
					case r.status == http.StatusServiceUnavailable:
						answers <- r.head.Get("X-Lane-Error")
					default:
						answers <- fmt.Sprint(r.status, " ", r.body)
					}
				})
			}
			count := map[string]int{}
			count[<-answers]++ // the first that waits no longer: all streams are taken
			close(letGo)
			wg.Wait()
			for range callers - 1 {
				count[<-answers]++
			}
			if count["200 laptop"] < streams || count["E_RELAY_LOST"] == 0 || count["200 laptop"]+count["E_RELAY_LOST"] != callers {
				t.Errorf("%v", count)
			}
			if got := most.Load(); got > streams {
				t.Errorf("%d were inside at once", got)
			}
			t.Logf("%v, %d inside at once", count, most.Load())
		})
		if f.metric(relay.admin, "lane_relay_limited_total") == 0 {
			t.Error("it is not counted")
		}
		free()
		goesUp(t, 1<<20)
	})
	if strings.Contains(up.err.String(), "the relay is lost") {
		t.Errorf("the tunnel was lost in between:\n%s", &up.err)
	}
	if lost := relay.lines("lost"); len(lost) > 0 {
		t.Errorf("the tunnel was lost in between: %v", lost)
	}
}
