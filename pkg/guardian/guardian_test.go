//go:build unix

package guardian

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lane/pkg/lane"

	"go.uber.org/goleak"
)

// The test binary is its own guardian: with GUARDIAN_OUT set it watches its
// standard input and writes down what it would clean up.
func TestMain(m *testing.M) {
	out := os.Getenv("GUARDIAN_OUT")
	if out == "" {
		goleak.VerifyTestMain(m)
		return
	}
	err := Watch(context.Background(), os.Stdin, time.Minute, func(_ context.Context, w Ward) error {
		return os.WriteFile(out, []byte(w.Session+" "+w.Claims[0].ID), 0o600)
	})
	if err != nil {
		os.Exit(1)
	}
}

func start(t *testing.T) (g *Guardian, out string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GUARDIAN_OUT="+out)
	g, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return g, out
}

func ward(session string) Ward {
	return Ward{Session: session, Claims: []lane.Claim{{ID: "lane:dev-alice:orders:1"}}}
}

func TestCleanEndIsNobodysBusiness(t *testing.T) {
	g, out := start(t)
	if err := g.Tell(ward("s1")); err != nil {
		t.Fatal(err)
	}
	if err := g.Dismiss(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("cleaned up after a clean end: %q", b)
	}
}

func TestDeathIsCleanedUp(t *testing.T) {
	g, out := start(t)
	sid, err := unixSid(g.cmd.Process.Pid)
	if err != nil || sid != g.cmd.Process.Pid {
		t.Errorf("the guardian's session is %d, %v; want its own", sid, err)
	}
	for _, s := range []string{"s1", "s2"} {
		if err := g.Tell(ward(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.in.Close(); err != nil { // what the system does for the dead
		t.Fatal(err)
	}
	if err := g.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(out); string(b) != "s2 lane:dev-alice:orders:1" {
		t.Errorf("cleaned up %q, want the last ward", b)
	}
}

func TestCommandsGroupIsEnded(t *testing.T) {
	c := exec.Command("sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	endGroup(c.Process.Pid)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("the command ended with %v", err)
	}
	endGroup(0) // must not be taken for our own group
	endGroup(1)
}

func TestTriesAgainUntilTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		flaky := func(context.Context, Ward) error {
			if calls++; calls < 4 {
				return errors.New("registry away")
			}
			return nil
		}
		if err := Watch(t.Context(), strings.NewReader(`{"session":"s"}`+"\n"), time.Minute, flaky); err != nil || calls != 5 { // and once more, for what was under way
			t.Errorf("%d calls, %v", calls, err)
		}
		from := time.Now()
		never := func(context.Context, Ward) error { return errors.New("registry away") }
		if err := Watch(t.Context(), strings.NewReader(`{"session":"s"}`+"\n"), time.Minute, never); err == nil {
			t.Error("gave no error when it gave up")
		}
		if took := time.Since(from); took != time.Minute {
			t.Errorf("gave up after %s", took)
		}
	})
}

func TestHalfALineIsNotUsed(t *testing.T) {
	var got Ward
	keep := func(_ context.Context, w Ward) error { got = w; return nil }
	if err := Watch(t.Context(), strings.NewReader("{\"session\":\"whole\"}\n{\"session\":\"ha"), time.Second, keep); err != nil || got.Session != "whole" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Watch(t.Context(), strings.NewReader("nonsense\n"), time.Second, keep); err == nil {
		t.Error("nonsense was taken")
	}
}

func TestItsOwnDeathIsNoticed(t *testing.T) {
	g, out := start(t)
	if err := g.Tell(ward("s1")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Gone():
		t.Fatal("gone while it lives")
	default:
	}
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-g.Gone()
	if err := g.Bury(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v, want the signal", err)
	}
	if b, err := os.ReadFile(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("cleaned up by whom? %q", b)
	}
}
