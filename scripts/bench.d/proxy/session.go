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

// session is one `lane up` with a registry of its own, as a developer has it.
type session struct {
	name   string
	binary string
	env    []string
	sent   int64 // requests that it was sent
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
	env := append([]string{"GOMAXPROCS=1", "LANE_STATE_DIR=" + dir, "LANE_RUNTIME_DIR=" + dir, "LANE_OWNER=bench"}, b.env...)
	reg, err := s.spawn(proxyCPU, "registry-"+b.name, env, b.path, "registry", "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	line, err := s.firstOutput(reg)
	if err != nil {
		return err
	}
	registry := line[strings.LastIndexByte(line, ' ')+1:]
	if err := s.register(registry, o.others); err != nil {
		return err
	}
	ses := &session{name: b.name, binary: b.path, env: append(env, "CONSUL_HTTP_ADDR="+registry)}
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
	s.lanes = append(s.lanes, ses)
	pids := []int{st.PID}
	if o.wants(b.name) {
		s.targets = append(s.targets, &target{name: b.name, addr: strings.TrimPrefix(st.Proxy, "http://"),
			through: "http://orders", host: "orders", session: ses, pids: pids})
	}
	if o.wants(guardOf(b.name)) {
		s.targets = append(s.targets, &target{name: guardOf(b.name), addr: st.Services[0].Guard,
			host: "reviews", sendTag: true, session: ses, pids: pids})
	}
	return nil
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

// recorded holds each session to what it was sent: a proxy that skips recording
// would be measured as something that nobody uses.
func (s *stage) recorded() error {
	var errs []error
	for _, ses := range s.lanes {
		st, err := ses.status(s)
		if err == nil && st.Counts.Exchanges < ses.sent {
			err = fmt.Errorf("%d exchanges recorded of %d", st.Counts.Exchanges, ses.sent)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", ses.name, err))
		}
	}
	return errors.Join(errs...)
}
