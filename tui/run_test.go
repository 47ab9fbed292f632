package tui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// terminal is what a user has: keys in, a screen out. The screen is all that was
// ever written, without its sequences.
type terminal struct {
	in  *io.PipeReader
	key *io.PipeWriter
	mu  sync.Mutex
	buf bytes.Buffer
}

func newTerminal() *terminal {
	r, w := io.Pipe()
	return &terminal{in: r, key: w}
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

// waitFor polls until it is true; the limit is there to end a test that hangs.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name     string
		attached bool
		keys     string
		want     error
		stopped  int32
	}{
		{"attached quits", true, "q", nil, 0},
		{"owner stops", false, "qy", nil, 1},
		{"owner stays, then stops", false, "qnqy", nil, 1},
		{"ctrl+c of the owner", false, "\x03", ErrInterrupted, 1},
		{"ctrl+c attached", true, "\x03", ErrInterrupted, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			term, src := newTerminal(), newFake()
			defer term.key.Close()
			src.put(3)
			var stopped atomic.Int32
			done := make(chan error, 1)
			go func() {
				done <- Run(t.Context(), src, Options{In: term.in, Out: term, Attached: c.attached,
					OnStop: func() { stopped.Add(1) }})
			}()
			for _, k := range c.keys {
				if _, err := term.key.Write([]byte(string(k))); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-done; !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if got := stopped.Load(); got != c.stopped {
				t.Errorf("OnStop was called %d times, want %d", got, c.stopped)
			}
		})
	}
}

// TestRunDetaches: the keys are pressed until the session is known to be up.
func TestRunDetaches(t *testing.T) {
	term, src := newTerminal(), newFake()
	var asked, stopped atomic.Int32
	done, typed := make(chan error, 1), make(chan struct{})
	go func() {
		done <- Run(t.Context(), src, Options{In: term.in, Out: term,
			Detach: func(context.Context) error { asked.Add(1); return nil }, OnStop: func() { stopped.Add(1) }})
	}()
	go func() {
		defer close(typed)
		for {
			if _, err := term.key.Write([]byte("qd")); err != nil {
				return
			}
		}
	}()
	if err := <-done; !errors.Is(err, ErrDetached) {
		t.Errorf("error %v", err)
	}
	if err := term.key.Close(); err != nil {
		t.Error(err)
	}
	<-typed
	if asked.Load() == 0 || stopped.Load() != 0 {
		t.Errorf("made ready %d times, stopped %d times", asked.Load(), stopped.Load())
	}
	term.mu.Lock()
	defer term.mu.Unlock()
	if out := term.buf.String(); !strings.Contains(out, "\x1b[?1049l") || !strings.Contains(out, "\x1b[?25h") {
		t.Error("the terminal was not given back")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	term, src := newTerminal(), newFake()
	defer term.key.Close()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, src, Options{In: term.in, Out: term, OnStop: func() { t.Error("nobody said stop") }})
	}()
	waitFor(t, "the screen is taken", func() bool {
		term.mu.Lock()
		defer term.mu.Unlock()
		return strings.Contains(term.buf.String(), "\x1b[?1049h")
	})
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	term.mu.Lock()
	defer term.mu.Unlock()
	if out := term.buf.String(); !strings.Contains(out, "\x1b[?1049l") || !strings.Contains(out, "\x1b[?25h") {
		t.Error("the terminal was not given back")
	}
}
