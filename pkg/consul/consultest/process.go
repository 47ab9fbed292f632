package consultest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	startAttempts = 5
	startTimeout  = time.Minute
)

// shared is the process's one real Consul: starting one takes a second, and a
// table of a hundred cases must not take a hundred.
var shared struct {
	sync.Mutex
	process *process
}

// StopReal ends the real Consul that Real started, if it did. Call it in
// TestMain after the tests.
func StopReal() {
	shared.Lock()
	defer shared.Unlock()
	if shared.process != nil {
		shared.process.stop()
		shared.process = nil
	}
}

// Start starts a real Consul of the test's own, which ends with the test.
func Start(tb testing.TB, binary string) (addr string) {
	tb.Helper()
	return startFor(tb, binary, "")
}

// StartACL is Start with the access control on: everything is denied but to the
// token, which may do everything.
func StartACL(tb testing.TB, binary, token string) (addr string) {
	tb.Helper()
	return startFor(tb, binary, token)
}

func startFor(tb testing.TB, binary, token string) (addr string) {
	tb.Helper()
	p, err := start(binary, token)
	if err != nil {
		tb.Fatalf("start the real Consul: %v", err)
	}
	tb.Cleanup(p.stop)
	return p.addr
}

type process struct {
	addr  string
	token string // of a registry with access control
	cmd   *exec.Cmd
	leash io.Closer
	dir   string
	done  chan struct{}
}

// leashed runs its arguments until they end or its standard input is closed,
// which happens also when the test process is killed: no Consul outlives it.
const leashed = `exec 3<&0
"$@" </dev/null 3<&- &
agent=$!
echo "$agent" >pid
{ read -r _ <&3; kill -9 "$agent"; } &
leash=$!
wait "$agent"
code=$?
kill "$leash" 2>/dev/null
exit "$code"`

// start tries again with other ports when another process took one between our
// look and Consul's start.
func start(binary, token string) (*process, error) {
	info, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", binary)
	}
	var failed error
	for range startAttempts {
		p, err := startOnce(binary, token)
		if err == nil {
			return p, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

func startOnce(binary, token string) (*process, error) {
	ports, err := keptPorts(4)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lane-consul-")
	if err != nil {
		return nil, err
	}
	args := []string{"agent", "-dev", "-bind", "127.0.0.1", "-node", "dev",
		"-http-port", strconv.Itoa(ports[0]), "-server-port", strconv.Itoa(ports[1]),
		"-serf-lan-port", strconv.Itoa(ports[2]), "-serf-wan-port", strconv.Itoa(ports[3]),
		"-dns-port", "-1", "-grpc-port", "-1", "-log-level", "info", "-hcl", common}
	if token != "" {
		args = append(args, "-hcl", denying(token))
	}
	p := &process{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), token: token, dir: dir}
	if err := p.launch(binary, args); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	if err := p.ready("/v1/health/state/passing", "serfHealth"); err != nil {
		tail := p.tail()
		p.stop()
		return nil, fmt.Errorf("%w; its log ends:\n%s", err, tail)
	}
	return p, nil
}

// common is every agent's: all tests come from one address and watch much, and
// nobody looks for updates.
const common = "ports { grpc_tls = -1 } disable_update_check = true limits { http_max_conns_per_client = 1000 }"

// denying has everything denied but to a token.
func denying(token string) string {
	return fmt.Sprintf(`acl { enabled = true default_policy = "deny" tokens { initial_management = %[1]q agent = %[1]q } }`, token)
}

// launch starts the agent in its directory.
func (p *process) launch(binary string, args []string) error {
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.CommandContext(context.Background(), "/bin/sh", append([]string{"-c", leashed, "sh", binary}, args...)...)
	p.cmd.Dir = p.dir
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if p.leash, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return nil
}

// environment keeps the tests' own Consul settings away from the agent.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CONSUL_") {
			env = append(env, v)
		}
	}
	return env
}

// ready waits for a leader and for an answer with the node's own check, without
// which no session can be made.
func (p *process) ready(path, want string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	for {
		err := p.ask(ctx, client, path, want)
		if err == nil {
			// The update that follows the check moves indexes under the first tests.
			err = p.ask(ctx, client, "/v1/catalog/nodes?filter="+"%22consul-network-segment%22+in+Meta", "consul-network-segment")
		}
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return errors.New("it ended by itself")
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s: %w", startTimeout, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *process) ask(ctx context.Context, client *http.Client, path, want string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+path, nil)
	if err != nil {
		return err
	}
	if p.token != "" {
		req.Header.Set("X-Consul-Token", p.token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return nil
}

func (p *process) tail() string {
	data, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-2000):])
}

// stop kills: a test's Consul has nothing to save.
func (p *process) stop() {
	p.kill()
	_ = os.RemoveAll(p.dir)
}

func (p *process) kill() {
	_ = p.leash.Close()
	<-p.done
}
