package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"lane/pkg/control"
	"lane/pkg/session"
)

// What a terminal sends reaches two processes and is one wish; the second wish is what
// ends the waiting.
func TestWishes(t *testing.T) {
	for name, c := range map[string]struct {
		direct int
		pulls  []pull
		want   int
	}{
		"none":                             {0, nil, 0},
		"a signal":                         {1, nil, 1},
		"one to the holder":                {0, []pull{pullTerminate}, 1},
		"one to both":                      {1, []pull{pullTerminate}, 1},
		"two to both":                      {2, []pull{pullTerminate, pullTerminate}, 2},
		"two to the holder":                {0, []pull{pullTerminate, pullTerminate}, 2},
		"two to the session":               {2, []pull{pullTerminate}, 2},
		"the holder's death":               {0, []pull{pullTorn}, 1},
		"its death does not hurry":         {0, []pull{pullTerminate, pullTorn}, 1},
		"nor where both have got a signal": {1, []pull{pullTerminate, pullTorn}, 1},
	} {
		w := wishes{direct: c.direct}
		for _, p := range c.pulls {
			w = w.pulled(p)
		}
		if got := w.count(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// onLeash is a leash, and the holder's ends of it.
func onLeash(t *testing.T) (l *leash, pullIt, hear *os.File) {
	t.Helper()
	from, pullIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	hear, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l = newLeash(from, to)
	t.Cleanup(func() { l.close(); _ = pullIt.Close(); _ = hear.Close() })
	return l, pullIt, hear
}

func TestLeash(t *testing.T) {
	t.Run("pulled, then torn", func(t *testing.T) {
		l, pullIt, _ := onLeash(t)
		if _, err := pullIt.Write([]byte{'t'}); err != nil {
			t.Fatal(err)
		}
		if p := <-l.pulls(); p != pullTerminate {
			t.Errorf("a signal is %d", p)
		}
		if err := pullIt.Close(); err != nil {
			t.Fatal(err)
		}
		if p := <-l.pulls(); p != pullTorn {
			t.Errorf("a death is %d", p)
		}
	})
	t.Run("let go", func(t *testing.T) {
		l, pullIt, hear := onLeash(t)
		l.letGo(control.Status{Lane: "dev-alice", PID: 7})
		raw, err := io.ReadAll(hear)
		if err != nil {
			t.Fatal(err)
		}
		var st control.Status
		if err := json.Unmarshal(raw, &st); err != nil || st.Lane != "dev-alice" || st.PID != 7 || bytes.Count(raw, []byte("\n")) != 1 {
			t.Errorf("told %q: %v", raw, err)
		}
		// A signal that the holder has got before it has heard that still counts.
		if _, err := pullIt.Write([]byte{'t'}); err != nil {
			t.Fatal(err)
		}
		if p := <-l.pulls(); p != pullTerminate {
			t.Errorf("a signal is %d", p)
		}
		if err := pullIt.Close(); err != nil {
			t.Fatal(err)
		}
		<-l.done
		select {
		case p := <-l.pulls():
			t.Errorf("its end says %d", p)
		default:
		}
	})
	t.Run("let go by a holder that is dead", func(t *testing.T) {
		l, _, hear := onLeash(t)
		if err := hear.Close(); err != nil {
			t.Fatal(err)
		}
		l.letGo(control.Status{})
	})
	t.Run("closed", func(t *testing.T) {
		l, _, _ := onLeash(t)
		l.close()
		select {
		case p := <-l.pulls():
			t.Errorf("its own end says %d", p)
		default:
		}
	})
	t.Run("none", func(t *testing.T) {
		var l *leash
		l.close()
		if l.pulls() != nil {
			t.Error("nobody pulls")
		}
	})
}

// Which signal it was is told, and each is an interruption.
func TestPulls(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		cause := interruption(sig)
		if got := pullFor(cause).why(); got != cause { //nolint:errorlint // which one it is
			t.Errorf("%s is told as %v", sig, got)
		}
	}
	for p, how := range map[pull]string{pullInterrupt: "Ctrl-C", pullTerminate: "SIGTERM", pullHangUp: "closed", pullTorn: "killed", 'x': "Ctrl-C"} {
		var by *session.InterruptedError
		if err := p.why(); !errors.As(err, &by) || !strings.Contains(by.How, how) {
			t.Errorf("%d: %+v", p, err)
		}
	}
}

func TestGate(t *testing.T) {
	var here, there bytes.Buffer
	ctx, end := context.WithCancel(t.Context())
	g := &gate{to: &here}
	say := func(s string) {
		t.Helper()
		if n, err := io.WriteString(g, s); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	say("before;")
	open := g.close(ctx)
	say("screen;")
	end()
	say("end;")
	if got := here.String(); got != "before;" {
		t.Errorf("on the screen: %q", got)
	}
	open()
	say("after;")
	if got := here.String(); got != "before;end;after;" {
		t.Errorf("said %q", got)
	}
	open = g.close(t.Context())
	g.turn(&there)
	say("first;")
	open()
	say("log;")
	if got := there.String(); got != "first;log;" || strings.Contains(here.String(), "log") {
		t.Errorf("the log has %q, the terminal %q", got, here.String())
	}
}
