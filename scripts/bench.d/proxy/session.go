//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// load is what one process of lane's was sent, through all its fronts. It is held
// to have recorded it: one that skips that would be measured as something that
// nobody uses.
type load struct {
	name     string
	sent     int64 // requests
	recorded func() (int64, error)
}

// session is one `lane up` with a registry of its own, as a developer has it.
type session struct {
	binary string
	env    []string
}

// state is what is read of `lane status --json`.
type state struct {
	PID      int
	Proxy    string
	Services []struct{ Guard, State string }
	Counts   struct{ Exchanges int64 }
}

// startLane starts the registry and the session. Two targets come of it: the
// forward front, whose requests go to another instance of the lane, chosen out of
// all the instances of that service, and the guard before the local process.
func (s *stage) startLane(b build, o *options) error {
	if !o.wants(b.name) && !o.wants(guardOf(b.name)) {
		return nil
	}
	dir := filepath.Join(s.work, b.name+".d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	env, err := s.startRegistry(b, o, dir)
	if err != nil {
		return err
	}
	ses := &session{binary: b.path, env: env}
	_, port, err := net.SplitHostPort(s.origin)
	if err != nil {
		return err
	}
	// As lane up -d runs it: no exchange is printed.
	quiet := append(slices.Clone(ses.env), "LANE_DETACHED_LOG="+filepath.Join(dir, "log"))
	p, err := s.spawn(proxyCPU, b.name, quiet, b.path, "up", tag, "-s", "reviews="+port, "--plain", "--proxy", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var st state
	err = s.until(p, "a session that is up", func() bool {
		st, err = ses.status(s)
		return err == nil && len(st.Services) == 1 && st.Services[0].State == "up"
	})
	if err != nil {
		return err
	}
	sent := &load{name: b.name, recorded: func() (int64, error) {
		st, err := ses.status(s)
		return st.Counts.Exchanges, err
	}}
	s.loads = append(s.loads, sent)
	pids := []int{st.PID}
	if o.wants(b.name) {
		s.targets = append(s.targets, &target{name: b.name, addr: strings.TrimPrefix(st.Proxy, "http://"),
			through: "http://orders", host: "orders", load: sent, pids: pids})
	}
	if o.wants(guardOf(b.name)) {
		s.targets = append(s.targets, &target{name: guardOf(b.name), addr: st.Services[0].Guard,
			host: "reviews", send: [][2]string{tagged}, load: sent, pids: pids})
	}
	return nil
}

// startRegistry starts a registry with a full catalog. It returns the environment
// of the programs that use it, with all that they keep in one directory.
func (s *stage) startRegistry(b build, o *options, dir string) (env []string, err error) {
	env = append([]string{"GOMAXPROCS=1", "LANE_STATE_DIR=" + dir, "LANE_RUNTIME_DIR=" + dir, "LANE_OWNER=bench"}, b.env...)
	reg, err := s.spawn(proxyCPU, "registry-"+b.name, env, b.path, "registry", "--listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	line, err := s.firstOutput(reg)
	if err != nil {
		return nil, err
	}
	registry := line[strings.LastIndexByte(line, ' ')+1:]
	return append(env, "CONSUL_HTTP_ADDR="+registry), s.register(registry, o.others)
}

// guardOf names the guard of a build: guard, guard-old, ...
func guardOf(build string) string { return "guard" + strings.TrimPrefix(build, "lane") }

// register puts the one instance of orders into the registry that is in the lane,
// and the others, which are the baseline's. The others are where nobody listens.
func (s *stage) register(registry string, others int) error {
	host, port, err := net.SplitHostPort(s.origin)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	type service struct {
		Name, ID, Address string
		Port              int
		Meta              map[string]string `json:",omitempty"`
	}
	all := []service{{"orders", "orders-lane", host, n, map[string]string{"lane": tag}}}
	for i := range others {
		all = append(all, service{"orders", fmt.Sprintf("orders-%d", i), fmt.Sprintf("127.1.%d.%d", i/200, i%200+1), n, nil})
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, svc := range all {
		body, err := json.Marshal(svc)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(s.ctx, http.MethodPut, registry+"/v1/agent/service/register", bytes.NewReader(body))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the registry answered %s", resp.Status)
		}
	}
	return nil
}

func (ses *session) status(s *stage) (st state, err error) {
	cmd := exec.CommandContext(s.ctx, ses.binary, "status", "--json")
	cmd.Env = append(bare(), ses.env...)
	out, err := cmd.Output()
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(out, &st)
}

// recorded holds each process of lane's to what it was sent.
func (s *stage) recorded() error {
	var errs []error
	for _, l := range s.loads {
		n, err := l.recorded()
		if err == nil && n < l.sent {
			err = fmt.Errorf("%d exchanges recorded of %d", n, l.sent)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.name, err))
		}
	}
	return errors.Join(errs...)
}
