//go:build unix

package cmd

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"lane/pkg/control"

	"github.com/rogpeppe/go-internal/testscript"
)

// interrupts SIGNAL before|after ARGS... runs `lane ARGS...` again and again, and
// sends it the signal at its first write to the registry, at its second one, and
// so on, before or after the registry has taken it, until the session comes up
// without. Each time the registry must then hold what it held before.
func cmdInterrupts(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 3, "interrupts SIGNAL before|after ARGS...")
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[args[0]]
	if sig == 0 {
		ts.Fatalf("unknown signal %s", args[0])
	}
	w := worldOf(ts)
	before, err := w.picture()
	ts.Check(err)
	const most = 50
	for n := int64(1); ; n++ {
		if n > most {
			ts.Fatalf("the session never came up within %d writes", most)
		}
		interrupted, said := interruptAt(ts, w, n, sig, args[1] == "before", args[2:])
		after, err := w.picture()
		ts.Check(err)
		if after != before && strings.Contains(said, tooSlow) {
			after, err = w.settled(before) // the guardian goes on
			ts.Check(err)
		}
		if after != before {
			ts.Fatalf("interrupted at write %d (%s): registry before:\n%s\nafter:\n%s\nlane said:\n%s", n, args[1], before, after, said)
		}
		if left, _ := filepath.Glob(filepath.Join(w.runtime, "*")); len(left) > 0 {
			ts.Fatalf("interrupted at write %d: left behind: %v\nlane said:\n%s", n, left, said)
		}
		if !interrupted {
			if n < 4 {
				ts.Fatalf("only %d writes were seen: not a real start", n-1)
			}
			ts.Logf("interrupted at each of %d writes", n-1)
			return
		}
	}
}

// tooSlow is what a session says whose clean-up took longer than each of its steps may:
// on a machine that is that busy, its guardian ends it.
const tooSlow = "no answer in time"

// settled waits until the registry holds what it held before, and returns what it holds.
func (w *world) settled(before string) (now string, err error) {
	ctx, cancel := storyContext()
	defer cancel()
	for {
		now, err = w.picture()
		if err != nil || now == before {
			return now, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return now, nil
		}
	}
}

// interruptAt runs lane against the registry through a proxy that sends the
// signal at write n, and returns what it said. If the session comes up first, it is
// ended and false is returned.
func interruptAt(ts *testscript.TestScript, w *world, n int64, sig syscall.Signal, before bool, args []string) (interrupted bool, said string) {
	target := &url.URL{Scheme: "http", Host: w.registry}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport = &http.Transport{Proxy: nil}
	forward.ErrorHandler = func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) }
	var writes atomic.Int64
	var pid atomic.Int64
	var hit atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Host = w.registry
		strike := r.Method != http.MethodGet && writes.Add(1) == n
		kill := func() {
			hit.Store(true)
			_ = syscall.Kill(int(pid.Load()), sig) // the test sees what comes of it
		}
		if strike && before {
			kill()
		}
		forward.ServeHTTP(rw, r)
		if strike && !before {
			kill()
		}
	}))
	defer front.Close()

	path, err := exec.LookPath("lane")
	ts.Check(err)
	c := exec.Command(path, args...)
	c.Dir = ts.Getenv("PWD")
	c.Env = append(environOf(ts), "CONSUL_HTTP_ADDR="+strings.TrimPrefix(front.URL, "http://"))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	ts.Check(c.Start())
	pid.Store(int64(c.Process.Pid))
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()

	// Up is when the interrupt can no longer come: ask the session itself.
	ctx, cancel := storyContext()
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	stopped := false
	for {
		select {
		case err := <-ended:
			if !stopped && !hit.Load() {
				ts.Fatalf("lane %v ended by itself: %v\n%s", args, err, &out)
			}
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted && !strings.Contains(out.String(), tooSlow) {
				ts.Fatalf("interrupted at write %d: %v, want exit code %d\n%s", n, err, exitInterrupted, &out)
			}
			return !stopped, out.String()
		case <-tick.C:
			if !hit.Load() && !stopped && isUp(ctx, w) {
				stopped = true
				ts.Check(c.Process.Signal(os.Interrupt))
			}
		case <-ctx.Done():
			_ = c.Process.Kill()
			<-ended
			ts.Fatalf("interrupted at write %d: lane did not end\n%s", n, &out)
		}
	}
}

// isUp asks the only session for its state, as lane status does, without a process
// for each time.
func isUp(ctx context.Context, w *world) bool {
	found, _, err := control.Sessions(ctx, w.runtime)
	return err == nil && len(found) == 1 && found[0].Status.State == control.SessionUp
}
