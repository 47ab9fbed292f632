//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The layout: the load and the origin on one CPU, what is measured on the other.
const (
	loadCPU  = 0
	proxyCPU = 1
)

// tag is the lane, and what every proxy must put into the request.
const tag = "bench"

// stage is everything that runs while it is measured.
type stage struct {
	ctx      context.Context
	work     string
	origin   string // host:port
	originID int
	targets  []*target
	loads    []*load
	entries  []*entry
	procs    []*process
	first    bool
	patience time.Duration // what is left of it
	runs     int           // of the load
}

// process is one that this run started, and ends.
type process struct {
	cmd  *exec.Cmd
	name string
	done chan struct{}
}

// spawn starts a program on one CPU. Its output goes to a file beside the others.
func (s *stage) spawn(cpu int, name string, env []string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(s.work, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := s.pinned(context.Background(), cpu, args...) // ended by stop
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(bare(), env...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, name: name, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	s.procs = append(s.procs, p)
	return p, s.favour(cmd.Process.Pid)
}

// pinned is a program on one CPU, in a session of its own: Ctrl-C is for this
// program, which ends the others in its own order. taskset and nice become the
// program: their id is its own.
func (s *stage) pinned(ctx context.Context, cpu int, args ...string) *exec.Cmd {
	before := []string{"-c", strconv.Itoa(cpu)}
	if s.first {
		before = append(before, "nice", "-n", "-20")
	}
	cmd := exec.CommandContext(ctx, "taskset", append(before, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// favour puts a program that has just been started before those of others. Where
// the kernel groups processes by session, nice alone holds inside a group only.
func (s *stage) favour(pid int) error {
	const group = "/proc/%d/autogroup"
	if _, err := os.Stat(fmt.Sprintf(group, pid)); err != nil || !s.first {
		return nil
	}
	return os.WriteFile(fmt.Sprintf(group, pid), []byte("-20"), 0o644)
}

// bare is the environment without what would send a program through a proxy, or
// to another registry.
func bare() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(kv), "=")
		return strings.HasSuffix(name, "_PROXY") || strings.HasPrefix(name, "LANE_") || strings.HasPrefix(name, "CONSUL_") ||
			name == "GOMAXPROCS" || name == "GOGC" || name == "GOMEMLIMIT"
	})
}

// until polls for a bounded time.
func (s *stage) until(p *process, what string, ok func() bool) error {
	for end := time.Now().Add(20 * time.Second); !ok(); {
		select {
		case <-p.done:
			return s.failed(p, what)
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			return s.failed(p, what)
		}
	}
	return nil
}

func (s *stage) failed(p *process, what string) error {
	out, err := os.ReadFile(filepath.Join(s.work, p.name+".log"))
	return errors.Join(fmt.Errorf("%s: %s did not happen\n%s", p.name, what, out), err)
}

// firstOutput is the first line that a program prints.
func (s *stage) firstOutput(p *process) (line string, err error) {
	err = s.until(p, "a first line", func() bool {
		f, err := os.Open(filepath.Join(s.work, p.name+".log"))
		if err != nil {
			return false
		}
		defer f.Close()
		line, err = bufio.NewReader(f).ReadString('\n')
		return err == nil
	})
	return strings.TrimSpace(line), err
}

func listens(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// freePort is one that nobody listens on now.
func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	return port, err
}

// start brings up the origin, lane and the peers, in the order of the table.
func (s *stage) start(o *options, lanes []build) error {
	p, err := s.spawn(loadCPU, "origin", []string{"GOMAXPROCS=1"}, o.origin)
	if err != nil {
		return err
	}
	if s.origin, err = s.firstOutput(p); err != nil {
		return err
	}
	s.originID = p.cmd.Process.Pid
	s.targets = append(s.targets, &target{name: direct, addr: s.origin, host: s.origin, send: sentTo(o.kind)})
	for _, b := range lanes {
		begin := s.startLane
		if o.kind == kindGateway {
			begin = s.startEntries
		}
		if err := begin(b, o); err != nil {
			return err
		}
	}
	for _, peer := range peersOf(o.kind) {
		if !o.wants(peer.name) {
			continue
		}
		if err := s.startPeer(peer, o.kind); err != nil {
			return err
		}
	}
	return nil
}

// stop ends what was started, the last first, and waits for each.
func (s *stage) stop() {
	var wg sync.WaitGroup
	for _, p := range slices.Backward(s.procs) {
		if strings.HasPrefix(p.name, "registry") {
			wg.Wait() // a session takes its registration out of it
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		wg.Go(func() {
			select {
			case <-p.done:
			case <-time.After(10 * time.Second):
				_ = p.cmd.Process.Kill()
				<-p.done
			}
		})
	}
	wg.Wait()
}

// moveTo puts every thread of the processes on one CPU; threads to come inherit it.
func moveTo(cpu int, pids []int) error {
	for _, pid := range pids {
		if out, err := exec.Command("taskset", "-a", "-p", "-c", strconv.Itoa(cpu), strconv.Itoa(pid)).CombinedOutput(); err != nil {
			return fmt.Errorf("taskset: %w: %s", err, out)
		}
	}
	return nil
}
