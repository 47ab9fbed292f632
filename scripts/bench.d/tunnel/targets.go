//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"lane/tunnel/wiretest"
)

const sshd = "/usr/sbin/sshd"

// target is one way from the environment to the laptop.
type target struct {
	name  string
	addr  string // where the environment calls it
	wire  *wiretest.Wire
	relay *exec.Cmd // the environment's end
	stop  []func()
}

func (t *target) close() {
	for i := len(t.stop) - 1; i >= 0; i-- {
		t.stop[i]()
	}
}

var kinds = []struct {
	name  string
	start func(ctx context.Context, name string, o *options, dir, app string) (*target, error)
}{
	{"direct", startDirect},
	{"ssh", startSSH},
	{"lane", startLane},
	{"yamux", startYamux("default")},
	{"yamux-8MiB", startYamux("8MiB")},
}

// startDirect is the wire alone.
func startDirect(_ context.Context, name string, o *options, _, app string) (*target, error) {
	w, err := wiretest.New(app, wiretest.Config{Delay: o.rtt / 2})
	if err != nil {
		return nil, err
	}
	return &target{name: name, addr: w.Addr(), wire: w, stop: []func(){w.Close}}, nil
}

func startLane(ctx context.Context, name string, o *options, _, app string) (*target, error) {
	return startPair(ctx, name, o, []string{"lane-relay"}, []string{"lane-laptop"}, app)
}

func startYamux(window string) func(context.Context, string, *options, string, string) (*target, error) {
	return func(ctx context.Context, name string, o *options, _, app string) (*target, error) {
		return startPair(ctx, name, o, []string{"yamux-relay", window}, []string{"yamux-laptop", window}, app)
	}
}

// startPair starts this program as both ends, with a wire between them.
func startPair(ctx context.Context, name string, o *options, relay, laptop []string, app string) (*target, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t := &target{name: name}
	cmd, out, err := t.child(ctx, exe, relay...)
	if err != nil {
		return t, err
	}
	t.relay = cmd
	line, err := bufio.NewReader(out).ReadString('\n')
	f := strings.Fields(line)
	if err != nil || len(f) != 3 {
		return t, fmt.Errorf("it said %q: %w", line, err)
	}
	if t.wire, err = wiretest.New(f[0], wiretest.Config{Delay: o.rtt / 2}); err != nil {
		return t, err
	}
	t.stop = append(t.stop, t.wire.Close)
	t.addr = f[2]
	if _, _, err := t.child(ctx, exe, append([]string{laptop[0], t.wire.Addr(), f[1], app}, laptop[1:]...)...); err != nil {
		return t, err
	}
	return t, t.ready(ctx)
}

// child starts a program that ends with its input.
func (t *target) child(ctx context.Context, name string, args ...string) (*exec.Cmd, io.Reader, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	t.stop = append(t.stop, func() {
		_ = in.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
	})
	return cmd, out, nil
}

// ready waits until an echo comes through.
func (t *target) ready(ctx context.Context) error {
	late := time.Now().Add(patience)
	for {
		c, err := ask(t.addr, "echo")
		if err == nil {
			err = echo(c, make([]byte, piece))
			_ = c.Close()
		}
		if err == nil || time.Now().After(late) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// startSSH starts an sshd with keys and settings of its own, and ssh -R to it
// through the wire.
func startSSH(ctx context.Context, name string, o *options, dir, app string) (*target, error) {
	t := &target{name: name}
	for _, key := range []string{"host", "user"} {
		if b, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			return t, fmt.Errorf("ssh-keygen: %w: %s", err, b)
		}
	}
	if os.Getuid() == 0 {
		// Where sshd locks its children up; the package makes it when the service starts.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return t, err
		}
	}
	port, err := freePort()
	if err != nil {
		return t, err
	}
	conf := fmt.Sprintf(`ListenAddress 127.0.0.1:%d
HostKey %s/host
AuthorizedKeysFile %s/user.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxSessions 2000
MaxStartups 2000
`, port, dir, dir)
	if err := os.WriteFile(filepath.Join(dir, "sshd_config"), []byte(conf), 0o600); err != nil {
		return t, err
	}
	if t.relay, _, err = t.child(ctx, sshd, "-D", "-e", "-q", "-f", filepath.Join(dir, "sshd_config")); err != nil {
		return t, err
	}
	if t.wire, err = wiretest.New(fmt.Sprintf("127.0.0.1:%d", port), wiretest.Config{Delay: o.rtt / 2}); err != nil {
		return t, err
	}
	t.stop = append(t.stop, t.wire.Close)
	front, err := freePort()
	if err != nil {
		return t, err
	}
	t.addr = fmt.Sprintf("127.0.0.1:%d", front)
	host, wirePort, err := net.SplitHostPort(t.wire.Addr())
	if err != nil {
		return t, err
	}
	late := time.Now().Add(patience)
	for !listens(port) {
		if time.Now().After(late) {
			return t, errors.New("sshd does not listen")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, _, err := t.child(ctx, "ssh", "-F", "none", "-N", "-T", "-p", wirePort, "-i", filepath.Join(dir, "user"),
		"-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR",
		"-o", "ExitOnForwardFailure=yes", "-R", fmt.Sprintf("127.0.0.1:%d:%s", front, app), host); err != nil {
		return t, err
	}
	return t, t.ready(ctx)
}

func freePort() (int, error) {
	l, err := listen()
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func listens(port int) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
