package whitelist

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
)

// server is a real Redis of the test's own, on a port of loopback, that keeps
// nothing on disk.
type server struct {
	port string
	dir  string
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
}

func startRedis(t *testing.T) *server {
	t.Helper()
	s := &server{dir: t.TempDir()}
	t.Cleanup(s.kill)
	var err error
	for range 10 { // the port may be taken by then
		s.port = freePort(t)
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := consultest.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// start returns when the server answers.
func (s *server) start() error {
	s.out.Reset()
	s.cmd = exec.Command("redis-server", "--port", s.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("redis-server (scripts/tools installs it): %w", err)
	}
	done := make(chan struct{})
	s.done = done
	go func() {
		_ = s.cmd.Wait() // it is always killed
		close(done)
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		if out, err := s.run("PING"); err == nil && out == "PONG" {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("redis-server ended:\n%s", &s.out)
		case <-limit.C:
			s.kill()
			return fmt.Errorf("redis-server does not answer:\n%s", &s.out)
		case <-tick.C:
		}
	}
}

func (s *server) kill() {
	if s.done != nil {
		_ = s.cmd.Process.Kill() // an error: it has ended
		<-s.done
	}
}

// signal with SIGSTOP lets it hang: it accepts connections and answers nothing.
func (s *server) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (s *server) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", s.port}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// cli runs redis-cli, as an operator would.
func (s *server) cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.run(args...)
	if err != nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// asked is how often the server was asked for a member.
func (s *server) asked(t *testing.T) int {
	t.Helper()
	_, after, found := strings.Cut(s.cli(t, "INFO", "commandstats"), "cmdstat_sismember:calls=")
	if !found {
		return 0
	}
	digits, _, _ := strings.Cut(after, ",")
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *server) url() string { return fmt.Sprintf("redis://127.0.0.1:%s", s.port) }

// open makes a whitelist of the server's sets, which ends with the test.
func (s *server) open(t *testing.T, o RedisOptions) *Whitelist {
	t.Helper()
	if o.URL == "" {
		o.URL = s.url()
	}
	w, err := Redis(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}
