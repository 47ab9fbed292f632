//go:build unix

package consultest

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// AgentOptions say what an agent is.
type AgentOptions struct {
	Name string
	// Servers is how many servers there are in all: the agent is one of them. 0:
	// it is a client, in front of those that it joins.
	Servers int
	Join    []*Agent
	Token   string // access control is on, and this token may do everything
}

// Agent is a real Consul agent of one test, with its data on disk: it can be
// killed, held and started again where it was.
type Agent struct {
	o      AgentOptions
	binary string
	ports  []int  // HTTP, server, serf
	id     string // of the node; an agent that keeps its name has to keep it too
	*process
}

// NewAgent starts an agent, which ends with the test. A server does not wait for
// the others: see Await.
func NewAgent(tb testing.TB, binary string, o AgentOptions) *Agent {
	tb.Helper()
	ports, err := keptPorts(3)
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lane-consul-")
	if err != nil {
		tb.Fatal(err)
	}
	a := &Agent{o: o, binary: binary, ports: ports, id: uuid(), process: &process{
		addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), token: o.Token, dir: dir}}
	if err := a.launch(binary, a.args()); err != nil {
		_ = os.RemoveAll(dir)
		tb.Fatalf("start the Consul agent %s: %v", o.Name, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the log of the Consul agent %s ends:\n%s", o.Name, a.tail())
		}
		a.stop()
	})
	return a
}

func (a *Agent) args() []string {
	args := []string{"agent", "-node", a.o.Name, "-node-id", a.id, "-data-dir", "data", "-bind", "127.0.0.1", "-client", "127.0.0.1",
		"-http-port", strconv.Itoa(a.ports[0]), "-server-port", strconv.Itoa(a.ports[1]), "-serf-lan-port", strconv.Itoa(a.ports[2]),
		"-serf-wan-port", "-1", "-dns-port", "-1", "-grpc-port", "-1", "-log-level", "info", "-retry-interval", "1s",
		"-hcl", common, "-hcl", "performance { raft_multiplier = 1 } leave_on_terminate = false"}
	if a.o.Servers > 0 {
		args = append(args, "-server", "-bootstrap-expect", strconv.Itoa(a.o.Servers))
	}
	for _, j := range a.o.Join {
		args = append(args, "-retry-join", "127.0.0.1:"+strconv.Itoa(j.ports[2]))
	}
	if a.o.Token != "" {
		args = append(args, "-hcl", denying(a.o.Token))
	}
	return args
}

// Addr is where it answers, host:port; the same after a restart.
func (a *Agent) Addr() string { return a.addr }

// Kill ends it as a crash does.
func (a *Agent) Kill() { a.kill() }

// Restart starts it again after Kill, with its data or without.
func (a *Agent) Restart(tb testing.TB, keep bool) {
	tb.Helper()
	if !keep {
		if err := os.RemoveAll(filepath.Join(a.dir, "data")); err != nil {
			tb.Fatal(err)
		}
	}
	if err := a.launch(a.binary, a.args()); err != nil {
		tb.Fatalf("start the Consul agent %s again: %v", a.o.Name, err)
	}
}

// Hold stops the process where it is, or lets it go on: it answers nothing, and
// its connections stay open.
func (a *Agent) Hold(tb testing.TB, held bool) {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(a.dir, "pid"))
	if err != nil {
		tb.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		tb.Fatal(err)
	}
	sig := syscall.SIGCONT
	if held {
		sig = syscall.SIGSTOP
	}
	if err := syscall.Kill(pid, sig); err != nil {
		tb.Fatalf("hold the Consul agent %s: %v", a.o.Name, err)
	}
}

// Await waits until the agent knows a leader and its own node is healthy.
func (a *Agent) Await(tb testing.TB) {
	tb.Helper()
	if err := a.ready("/v1/health/node/"+a.o.Name, `"Status":"passing"`); err != nil {
		tb.Fatalf("the Consul agent %s: %v; its log ends:\n%s", a.o.Name, err, a.tail())
	}
}

// Leader is the one of the servers that leads, as the agent knows it.
func (a *Agent) Leader(tb testing.TB, servers []*Agent) *Agent {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	var errs error
	for _, s := range servers {
		err := a.ask(ctx, client, "/v1/status/leader", fmt.Sprintf("127.0.0.1:%d", s.ports[1]))
		if err == nil {
			return s
		}
		errs = errors.Join(errs, err)
	}
	tb.Fatalf("none of the servers leads: %v", errs)
	return nil
}

func uuid() string {
	var b [16]byte
	_, _ = crand.Read(b[:]) // it never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
