package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
	until(t, "it lies ready", func() bool {
		st := s.(*stream)
		st.mux.mu.Lock()
		defer st.mux.mu.Unlock()
		return st.unread == len("later")
	})
	// Also where there is something to read, as of any connection.
	if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
	}
	_ = s.SetReadDeadline(time.Time{})
	if b, err := io.ReadAll(s); string(b) != "later" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	_ = s.SetWriteDeadline(past)
	if n, err := s.Write([]byte("too late")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
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
