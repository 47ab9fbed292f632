package tunnel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	mathrand "math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// noise writes n bytes that do not repeat, and returns their sum.
func noise(w io.Writer, n int64, seed uint64) ([]byte, error) {
	h := sha256.New()
	block := make([]byte, 256<<10)
	_, _ = mathrand.NewChaCha8([32]byte{byte(seed)}).Read(block)
	to := io.MultiWriter(w, h)
	for i := uint64(0); n > 0; i++ {
		binary.BigEndian.PutUint64(block, i)
		m, err := to.Write(block[:min(n, int64(len(block)))])
		if n -= int64(m); err != nil {
			return nil, err
		}
	}
	return h.Sum(nil), nil
}

// size of a transfer: 64 MiB, or as many MiB as LANE_TEST_TRANSFER says (1024).
func size() int64 {
	if n, err := strconv.ParseInt(os.Getenv("LANE_TEST_TRANSFER"), 10, 64); err == nil {
		return n << 20
	}
	return 64 << 20
}

func TestUploadAndDownload(t *testing.T) {
	sums := make(chan []byte, 1)
	r, _ := pair(t, quick(), func(_ context.Context, _ Claim, h Header, s Stream) {
		if h.Request == "up" {
			got := sha256.New()
			if _, err := io.Copy(got, s); err != nil {
				t.Error(err)
			}
			_, _ = s.Write(got.Sum(nil))
			return
		}
		sum, err := noise(s, size(), 2)
		if err != nil {
			t.Error(err)
		}
		sums <- sum
	})
	dial := func(what string) Stream {
		s, err := r.Dial(t.Context(), "dev-alice", "orders", Header{Request: what})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	most := watchHeap(t)
	s := dial("up")
	sum, err := noise(s, size(), 1)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.CloseWrite()
	if got, err := io.ReadAll(s); !bytes.Equal(got, sum) || err != nil {
		t.Errorf("up: %x, want %x (%v)", got, sum, err)
	}
	_ = s.Close()
	s = dial("down")
	got := sha256.New()
	if n, err := io.Copy(got, s); n != size() || err != nil {
		t.Errorf("down: %d bytes, %v", n, err)
	}
	equal(t, got, <-sums)
	_ = s.Close()
	// Windows and buffers, whatever the size: 8 MiB twice, doubled by growth.
	if m := most(); m > 48<<20 {
		t.Errorf("the heap grew by %d MiB", m>>20)
	}
}

func equal(t *testing.T, got hash.Hash, want []byte) {
	t.Helper()
	if !bytes.Equal(got.Sum(nil), want) {
		t.Errorf("sum %x, want %x", got.Sum(nil), want)
	}
}

// watchHeap returns a function that says by how much the heap in use has grown at
// most.
func watchHeap(t testing.TB) func() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base := m.HeapAlloc
	var most atomic.Uint64
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > base {
				most.Store(max(most.Load(), m.HeapAlloc-base))
			}
		}
	}()
	stop := sync.OnceFunc(func() { close(done); <-stopped })
	t.Cleanup(stop)
	return func() uint64 { stop(); return most.Load() }
}

// Readers that read nothing leave their windows full and the connection
// free.
func TestSlowReadersHoldUpNobody(t *testing.T) {
	const stalls = 8
	endless := func(ctx context.Context, _ Claim, h Header, s Stream) {
		_, _ = noise(s, 256<<20, 3) // until the reader has gone, or has enough
	}
	r, _ := pair(t, quick(), endless)
	other, _ := pair(t, quick(), endless) // where nobody stalls
	read := func(s Stream) time.Duration {
		defer func() { _ = s.Close() }()
		began := time.Now()
		if _, err := io.CopyN(io.Discard, s, 4<<20); err != nil {
			t.Error(err)
		}
		return time.Since(began)
	}
	read(r.dial(t, "orders"))
	read(other.dial(t, "orders"))
	most := watchHeap(t)
	for range stalls {
		r.dial(t, "orders")
	}
	l := r.links1()
	full := func() bool {
		l.mu.Lock()
		m := l.muxes[partBulk]
		l.mu.Unlock()
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.unread >= stalls*(bulkWindow-chunk)
	}
	until(t, "the windows are full", full)
	// The machine has other work: both are read at the same time, half is asked for, and
	// once is enough. What it is on a quiet machine, scripts/bench tunnel measures.
	until(t, "beside stalled readers it is half as quick as without, at least", func() bool {
		a, b := r.dial(t, "orders"), other.dial(t, "orders")
		var with, without time.Duration
		var both sync.WaitGroup
		both.Go(func() { with = read(a) })
		both.Go(func() { without = read(b) })
		both.Wait()
		t.Logf("%v beside stalled readers, %v without", with, without)
		return t.Failed() || with <= 2*without
	})
	// The windows, in buffers that double as they grow, what they grew from, and the
	// other pair's.
	if m := most(); m > 4*stalls*bulkWindow {
		t.Errorf("the heap grew by %d MiB", m>>20)
	}
}

// links1 is the only link.
func (r *testRelay) links1() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all {
		return l
	}
	return nil
}

// All stalled readers of a link together are bounded too: the one with the most
// unread is cut.
func TestUnreadBytesAreBounded(t *testing.T) {
	t.Parallel()
	tm := quick()
	tm.maxUnread = 8 << 20
	r, _ := pair(t, tm, func(_ context.Context, _ Claim, h Header, s Stream) {
		n := int64(3 << 20)
		if h.Request == "small" {
			n = 1000
		}
		_, _ = noise(s, n, 4)
	})
	var big []Stream
	for range 4 { // 12 MiB in all
		big = append(big, r.dial(t, "orders"))
	}
	until(t, "one is cut", func() bool {
		cut := 0
		for _, s := range big {
			if s.(*stream).failed() != nil {
				cut++
			}
		}
		return cut > 0
	})
	cut := 0
	for _, s := range big {
		switch n, err := io.Copy(io.Discard, s); {
		case err == nil && n == 3<<20:
		case asRefusal(err, 0).Code == 503:
			cut++
		default:
			t.Errorf("%d, %v", n, err)
		}
	}
	if cut == 0 || cut == len(big) {
		t.Errorf("%d of %d were cut", cut, len(big))
	}
	s, err := r.Dial(t.Context(), "dev-alice", "orders", Header{Request: "small"})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, s); n != 1000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// An uplink of 2 Mbit/s that four streams fill, each writing all that it can:
// pings and frames wait behind what is queued, and must not take that for a dead
// peer.
func TestASlowUplinkIsNoDeadPeer(t *testing.T) {
	t.Parallel()
	// A third of the rate, and three times the time: a ping waits behind as many bytes as
	// with the real ones. But what a busy machine takes for each piece does not grow with
	// them, and three times as many pings go out meanwhile.
	const times = 3
	tm := defaults
	tm.write, tm.open, tm.handshake = times*tm.write, times*tm.open, times*tm.handshake
	const each = 450 << 10 // 22 s in all: a dead peer is found in tm.beat and tm.write, 20
	line := slow
	line.Rate /= times
	r := startRelay(t, tm, nil)
	w := wire1(t, r.addr, line)
	a := startAgent(t, tm, r, func(c *AgentConfig) {
		c.URL = "wss://" + w.Addr()
		c.Handle = func(_ context.Context, _ Claim, _ Header, s Stream) { _, _ = noise(s, each, 5) }
	})
	a.claim(t, orders(TCP))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := r.Dial(t.Context(), "dev-alice", "orders", Header{})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = s.Close() }()
			if n, err := io.Copy(io.Discard, s); n != each || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	wg.Wait()
	if n := r.auth.count("lost"); n != 0 {
		t.Error("the link was lost")
	}
}
