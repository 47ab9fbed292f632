package tui

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStartAsksNothing: this very program, which has Bubble Tea in it, starts on
// a terminal without asking it anything. The twin shows that a question would be
// seen.
func TestStartAsksNothing(t *testing.T) {
	for name, c := range map[string]struct {
		env  string
		asks bool
	}{"start": {"", false}, "a program that asks": {askEnv + "=1", true}} {
		t.Run(name, func(t *testing.T) {
			ptm, pts := openTerminal(t)
			defer ptm.Close()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(exe, "-test.run=^$")
			cmd.Env = []string{"TERM=xterm-256color", "HOME=/", c.env}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = pts, pts, pts
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pts.Close()
			if err := ptm.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			buf := make([]byte, 4096)
			asked := false
			for !asked {
				n, err := ptm.Read(buf)
				out.Write(buf[:n])
				asked = strings.Contains(out.String(), "\x1b]11")
				if err != nil { // EIO: the program has ended
					break
				}
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if asked != c.asks {
				t.Errorf("asked %v, want %v; output %q", asked, c.asks, out.String())
			}
			if !c.asks && !strings.Contains(out.String(), "PASS") {
				t.Errorf("the program did not run: %q", out.String())
			}
		})
	}
}

// openTerminal makes a pseudo terminal: our end and the program's.
func openTerminal(t *testing.T) (ptm, pts *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ptm = os.NewFile(uintptr(fd), "ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	pts, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ptm, pts
}
