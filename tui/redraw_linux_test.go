package tui

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// typewriter is a program at a pseudo terminal, and all that it has written.
type typewriter struct {
	ptm *os.File
	mu  sync.Mutex
	out strings.Builder
}

func (w *typewriter) times(s string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.out.String(), s)
}

// atTerminal runs a viewer at a pseudo terminal until q.
func atTerminal(t *testing.T, continued <-chan struct{}) *typewriter {
	t.Helper()
	ptm, pts := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(pts.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	w := &typewriter{ptm: ptm}
	src, ctx := newFake(), context.WithoutCancel(t.Context()) // it ends by its key
	src.put(3)
	done, read := make(chan error, 1), make(chan struct{})
	go func() {
		done <- Run(ctx, src, Options{In: pts, Out: pts, Attached: true, Continued: func(ctx context.Context) bool {
			select {
			case <-continued:
				return true
			case <-ctx.Done():
				return false
			}
		}})
		_ = pts.Close()
	}()
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := ptm.Read(buf)
			w.mu.Lock()
			w.out.Write(buf[:n])
			w.mu.Unlock()
			if err != nil { // EIO: nobody is at the other end
				return
			}
		}
	}()
	t.Cleanup(func() {
		w.press(t, "q")
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-read
		_ = ptm.Close()
	})
	waitFor(t, "the screen is taken", func() bool { return w.times(takes) == 1 })
	return w
}

func (w *typewriter) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := w.ptm.WriteString(keys); err != nil {
		t.Error(err)
	}
}

const (
	takes  = "\x1b[?1049h" // the alternate screen
	gives  = "\x1b[?1049l"
	clears = "\x1b[2J"
)

// TestDrawsAnew: ctrl+l, and a process that goes on after a stop, draw all of it, the
// latter in a terminal that is taken anew.
func TestDrawsAnew(t *testing.T) {
	continued := make(chan struct{})
	w := atTerminal(t, continued)
	waitFor(t, "a row", func() bool { return w.times(" FROM") == 1 })
	drawn := w.times(clears)
	w.press(t, "k") // the twin: what changes is drawn, and nothing else
	waitFor(t, "another row is selected", func() bool { return w.times("row 2 of 3") > 0 })
	if got := w.times(" FROM"); got != 1 || w.times(clears) != drawn {
		t.Errorf("a key draws all: %d times", got)
	}
	w.press(t, "\x0c")
	waitFor(t, "drawn anew", func() bool { return w.times(clears) > drawn && w.times(" FROM") == 2 })
	continued <- struct{}{}
	waitFor(t, "taken anew", func() bool { return w.times(gives) == 1 && w.times(takes) == 2 && w.times(" FROM") == 3 })
	w.press(t, "k")
	waitFor(t, "a key works", func() bool { return w.times("row 1 of 3") > 0 })
}

// TestSuspend: a viewer gives the terminal back while it is stopped; the process of a
// session does not stop.
func TestSuspend(t *testing.T) {
	real := stop
	t.Cleanup(func() { stop = real })
	stops := make(chan bool)
	stop = func() bool { stops <- true; return <-stops }
	w := atTerminal(t, nil)
	for n, stopped := range []bool{true, false} {
		w.press(t, "\x1a")
		<-stops
		waitFor(t, "given back", func() bool { return w.times(gives) == n+1 })
		stops <- stopped
		waitFor(t, "taken anew", func() bool { return w.times(takes) == n+2 })
		if !stopped {
			waitFor(t, "said", func() bool { return w.times("not suspended: no shell") == 1 })
		} else if w.times("not suspended") != 0 {
			t.Error("it says that it was not")
		}
	}
	stop = func() bool { t.Error("the session's process is stopped"); return true }
	for _, c := range []struct {
		opts []func(*Options)
		want string
	}{{nil, "not suspended: the lane's callers would wait"}, {[]func(*Options){leaving(nil)}, "would wait; q d detaches"}} {
		u := newUser(t, 80, 24, c.opts...).running().keys("ctrl+z").wantScreen(c.want)
		if u.m.do != nil {
			t.Error("it does something")
		}
	}
}
