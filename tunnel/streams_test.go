package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// pair is a relay and an agent that holds orders.
func pair(t testing.TB, tm timing, handle func(context.Context, Claim, Header, Stream)) (*testRelay, *testAgent) {
	t.Helper()
	r := startRelay(t, tm, nil)
	a := startAgent(t, tm, r, func(c *AgentConfig) { c.Handle = handle })
	a.claim(t, orders(TCP))
	return r, a
}

func TestEachDirectionEndsByItself(t *testing.T) {
	t.Parallel()
	r, _ := pair(t, quick(), func(_ context.Context, _ Claim, _ Header, s Stream) {
		asked, err := io.ReadAll(s) // until the caller's end
		if err != nil {
			t.Error(err)
		}
		_, _ = fmt.Fprintf(s, "got %s", asked)
		_ = s.CloseWrite()
	})
	s := r.dial(t, "orders")
	if _, err := io.WriteString(s, "a question"); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(s)
	if string(b) != "got a question" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := s.Write([]byte("more")); err == nil {
		t.Error("wrote after the own end")
	}
}

// The default of yamux cuts a half-closed stream after five minutes: an answer
// that takes longer than that would end in the middle. The negative twin shows
// that this test would see it.
func TestAnAnswerAfterTheRequestsEndIsNotCut(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut=%v", cut), func(t *testing.T) {
			t.Parallel()
			tm := quick()
			if cut {
				tm.closeTimeout = 100 * time.Millisecond
			}
			r, _ := pair(t, tm, func(_ context.Context, _ Claim, _ Header, s Stream) {
				_, _ = io.Copy(io.Discard, s)
				for i := range 10 {
					if !pause(t, 50*time.Millisecond) {
						return
					}
					if _, err := fmt.Fprintf(s, "event %d\n", i); err != nil {
						return
					}
				}
			})
			s := r.dial(t, "orders")
			_ = s.CloseWrite()
			b, err := io.ReadAll(s)
			if whole := strings.HasSuffix(string(b), "event 9\n"); whole == cut {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// pause waits without outliving the test.
func pause(t testing.TB, d time.Duration) bool {
	tm := time.NewTimer(d)
	defer tm.Stop()
	select {
	case <-tm.C:
		return true
	case <-t.Context().Done():
		return false
	}
}

func TestACutIsNoEnd(t *testing.T) {
	t.Parallel()
	cut := make(chan struct{})
	r, _ := pair(t, quick(), func(_ context.Context, _ Claim, _ Header, s Stream) {
		_, _ = io.WriteString(s, "half an answ")
		<-cut
		s.Abort(502, "lane-local-down: the process has ended")
	})
	s := r.dial(t, "orders")
	if b := make([]byte, 12); true {
		if _, err := io.ReadFull(s, b); err != nil {
			t.Fatal(err)
		}
	}
	close(cut)
	_, err := s.Read(make([]byte, 1))
	var no *Refusal
	if !errors.As(err, &no) || no.Code != 502 || no.Text != "lane-local-down: the process has ended" {
		t.Errorf("%v", err)
	}
	if _, err := s.Write([]byte("more")); !errors.As(err, &no) {
		t.Errorf("%v", err)
	}
}

func TestALostLinkIsNoEnd(t *testing.T) {
	t.Parallel()
	r, a := pair(t, quick(), func(ctx context.Context, _ Claim, _ Header, s Stream) {
		_, _ = io.WriteString(s, "half an answ")
		<-ctx.Done() // the handler hears of it too
	})
	s := r.dial(t, "orders")
	if _, err := io.ReadFull(s, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		read <- err
	}()
	l, err := a.current()
	if err != nil {
		t.Fatal(err)
	}
	_ = l.bulk.wire.raw.Close()
	if err := <-read; !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	if _, err := s.Write([]byte("more")); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
}

// Whoever has gone is told of to the writer, so that a download nobody wants does
// not go on; and the stream is free on both sides.
func TestACancelledDownloadFreesTheStream(t *testing.T) {
	t.Parallel()
	wrote := make(chan error, 1)
	r, a := pair(t, quick(), func(_ context.Context, _ Claim, _ Header, s Stream) {
		b := make([]byte, 64<<10)
		for {
			if _, err := s.Write(b); err != nil {
				wrote <- err
				return
			}
		}
	})
	s := r.dial(t, "orders")
	if _, err := io.CopyN(io.Discard, s, 10<<20); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	select {
	case err := <-wrote:
		if !errors.Is(err, errStopped) {
			t.Errorf("%v", err)
		}
	case <-time.After(patience):
		t.Fatal("the writer writes on")
	}
	l, _ := a.current()
	free := func() bool {
		ln := r.Links()
		return l.bulk.count() == 0 && ln[0].Streams == 0 && l.bulk.sess.(*yamuxSession).NumStreams() == 1
	}
	until(t, "the stream is free", free)
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(late) {
			t.Fatalf("not so within %v: %s", patience, what)
		}
		if !pause(t, 5*time.Millisecond) {
			return
		}
	}
}

func TestADeadlineEndsAReadAndNotTheStream(t *testing.T) {
	t.Parallel()
	say := make(chan struct{})
	r, _ := pair(t, quick(), func(_ context.Context, _ Claim, _ Header, s Stream) {
		<-say
		_, _ = io.WriteString(s, "later")
	})
	s := r.dial(t, "orders")
	_ = s.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := s.Read(make([]byte, 1))
	var ne net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("%v", err)
	}
	close(say)
	_ = s.SetReadDeadline(time.Time{})
	if b, err := io.ReadAll(s); string(b) != "later" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestASilentStreamIsCutAfterItsLimit(t *testing.T) {
	t.Parallel()
	tm := quick()
	tm.idle = 500 * time.Millisecond
	r, _ := pair(t, tm, func(ctx context.Context, _ Claim, _ Header, s Stream) { <-ctx.Done() })
	s := r.dial(t, "orders")
	_, err := s.Read(make([]byte, 1))
	if no := asRefusal(err, 0); no.Code != 504 {
		t.Errorf("%v", err)
	}
}

// echo answers on every connection with what comes.
func echo(_ context.Context, _ Claim, _ Header, s Stream) { _, _ = io.Copy(s, s) }

// Over the limit of streams callers wait for one, and those that wait too long are
// told so. Nothing stands still for ever.
func TestStreamsOverTheLimitWait(t *testing.T) {
	t.Parallel()
	const limit, callers = 8, 100
	tm := quick()
	tm.slot = 20 * time.Second
	r := startRelay(t, tm, func(c *RelayConfig) { c.Limits.Streams = limit })
	var now, most atomic.Int64
	a := startAgent(t, tm, r, func(c *AgentConfig) {
		c.Handle = func(_ context.Context, _ Claim, _ Header, s Stream) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			b, _ := io.ReadAll(s)
			_, _ = s.Write(b)
			now.Add(-1)
		}
	})
	a.claim(t, orders(TCP))
	var wg sync.WaitGroup
	var ok atomic.Int64
	for i := range callers {
		wg.Go(func() {
			s, err := r.Dial(t.Context(), "dev-alice", "orders", Header{})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = s.Close() }()
			_, _ = fmt.Fprint(s, i)
			_ = s.CloseWrite()
			if b, err := io.ReadAll(s); string(b) != strconv.Itoa(i) || err != nil {
				t.Errorf("%d: %q, %v", i, b, err)
				return
			}
			ok.Add(1)
		})
	}
	wg.Wait()
	if ok.Load() != callers {
		t.Errorf("%d of %d", ok.Load(), callers)
	}

	// All taken and none given back: who comes now waits no longer than he wants to.
	var held []Stream
	for range limit {
		held = append(held, r.dial(t, "orders"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Dial(ctx, "dev-alice", "orders", Header{}); !errors.Is(err, ErrBusy) {
		t.Errorf("%v", err)
	}
	// The control connection has streams of its own: a probe is not kept out.
	probe, err := r.Dial(t.Context(), "dev-alice", "orders", Header{Small: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = probe.Close()
	_ = held[0].Close()
	_ = r.dial(t, "orders").Close()
}

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
	// Windows and buffers, whatever the size: 4 MiB twice, doubled by growth.
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
	r, _ := pair(t, quick(), func(ctx context.Context, _ Claim, h Header, s Stream) {
		_, _ = noise(s, 256<<20, 3) // until the reader has gone, or has enough
	})
	rate := func() float64 {
		s := r.dial(t, "orders")
		defer func() { _ = s.Close() }()
		began := time.Now()
		if _, err := io.CopyN(io.Discard, s, 4<<20); err != nil {
			t.Fatal(err)
		}
		return 4 / time.Since(began).Seconds()
	}
	rate()
	most := watchHeap(t)
	var stalled []Stream
	for range stalls {
		s := r.dial(t, "orders")
		stalled = append(stalled, s)
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
	// The machine has other work: the best of each counts, and half is asked for here.
	// What it is on a quiet machine, scripts/bench tunnel measures.
	var with, without float64
	for range 3 {
		with = max(with, rate())
	}
	for _, s := range stalled {
		_ = s.Close()
	}
	for range 3 {
		without = max(without, rate())
	}
	if with < 0.5*without {
		t.Errorf("%.0f MiB/s beside stalled readers, %.0f without", with, without)
	}
	// The windows, in buffers that double as they grow, and what they grew from.
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
	r := startRelay(t, defaults, nil)
	w := wire1(t, r.addr, slow)
	a := startAgent(t, defaults, r, func(c *AgentConfig) {
		c.URL = "wss://" + w.Addr()
		c.Handle = func(_ context.Context, _ Claim, _ Header, s Stream) { _, _ = noise(s, 400<<10, 5) }
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
			if n, err := io.Copy(io.Discard, s); n != 400<<10 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	wg.Wait()
	if n := r.auth.count("lost"); n != 0 {
		t.Error("the link was lost")
	}
}

// An application that has gone ends the stream for the caller, and the other way
// round; what was under way arrives.
func TestJoin(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r, _ := pair(t, quick(), to(l.Addr().String()))
	app := func() *net.TCPConn {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		t.Cleanup(func() { _ = c.Close() })
		return c.(*net.TCPConn)
	}
	t.Run("each end by itself", func(t *testing.T) {
		s := r.dial(t, "orders")
		_, _ = io.WriteString(s, "question")
		_ = s.CloseWrite()
		c := app()
		if b, err := io.ReadAll(c); string(b) != "question" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		_, _ = io.WriteString(c, "answer")
		_ = c.CloseWrite()
		if b, err := io.ReadAll(s); string(b) != "answer" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("the application is killed", func(t *testing.T) {
		s := r.dial(t, "orders")
		_, _ = io.WriteString(s, "question")
		c := app()
		_, _ = io.ReadFull(c, make([]byte, 8))
		_ = c.SetLinger(0)
		_ = c.Close()
		_, err := s.Read(make([]byte, 1))
		if no := asRefusal(err, 0); no.Code != 502 {
			t.Errorf("a reset is read as %v", err)
		}
	})
	t.Run("the caller has gone while the application thinks", func(t *testing.T) {
		s := r.dial(t, "orders")
		_, _ = io.WriteString(s, "one line")
		_ = s.Close()
		c := app()
		if b, err := io.ReadAll(c); string(b) != "one line" || err != nil {
			t.Errorf("what was sent before the end: %q, %v", b, err)
		}
	})
	t.Run("the caller is cut", func(t *testing.T) {
		s := r.dial(t, "orders")
		_, _ = io.WriteString(s, "one")
		c := app()
		_, _ = io.ReadFull(c, make([]byte, 3))
		s.Abort(499, "gone")
		if b, err := io.ReadAll(c); err == nil {
			t.Errorf("a cut was read as an end after %q", b)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		_ = l.Close()
		s := r.dial(t, "orders")
		_, err := s.Read(make([]byte, 1))
		if no := asRefusal(err, 0); no.Code != 502 || !strings.HasPrefix(no.Text, "lane-local-down: ") {
			t.Errorf("%v", err)
		}
	})
}

// Server-sent events and a WebSocket through the tunnel are streams that stay
// open; HTTP/2 with gRPC's trailers is one connection in one stream.
func TestProtocols(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			if !pause(t, 20*time.Millisecond) {
				return
			}
		}
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(c, rw)
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("Grpc-Status", "0")
	})
	r, _ := pair(t, quick(), to(httpServer(t, mux)))
	c := r.client(t, "orders")
	if got := get(t, c, "http://orders/events"); !strings.HasSuffix(got, "data: 4\n\n") {
		t.Errorf("%q", got)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://orders/trailers", strings.NewReader("hi"))
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(b) != "hi" || resp.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%q, trailers %v", b, resp.Trailer)
	}
	s := r.dial(t, "orders")
	_, _ = io.WriteString(s, "GET /upgrade HTTP/1.1\r\nHost: orders\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	br := bufio.NewReader(s)
	up, err := http.ReadResponse(br, nil)
	if err != nil || up.StatusCode != 101 {
		t.Fatalf("%v, %v", up, err)
	}
	for i := range 3 {
		line := fmt.Sprintf("message %d\n", i)
		_, _ = io.WriteString(s, line)
		if got, err := br.ReadString('\n'); got != line || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// A bidirectional gRPC stream, with headers and trailers, through one stream.
func TestGRPC(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	desc := &grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Chat", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			s.SetTrailer(metadata.Pairs("x-count", "3"))
			for {
				var m wrapperspb.StringValue
				if err := s.RecvMsg(&m); err != nil {
					if errors.Is(err, io.EOF) {
						return nil
					}
					return err
				}
				if err := s.SendMsg(wrapperspb.String("echo " + m.GetValue())); err != nil {
					return err
				}
			}
		},
	}}}
	server := grpc.NewServer()
	server.RegisterService(desc, struct{}{})
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-served })
	r, _ := pair(t, quick(), to(l.Addr().String()))
	conn, err := grpc.NewClient("passthrough:///orders", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return r.Dial(ctx, "dev-alice", "orders", Header{})
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	chat, err := conn.NewStream(ctx, &desc.Streams[0], "/test.Echo/Chat")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := chat.SendMsg(wrapperspb.String(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		var m wrapperspb.StringValue
		if err := chat.RecvMsg(&m); err != nil || m.GetValue() != fmt.Sprintf("echo %d", i) {
			t.Fatalf("%q, %v", m.GetValue(), err)
		}
	}
	_ = chat.CloseSend()
	var m wrapperspb.StringValue
	if err := chat.RecvMsg(&m); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	if got := chat.Trailer().Get("x-count"); len(got) != 1 || got[0] != "3" {
		t.Errorf("trailers %v", chat.Trailer())
	}
}
