//go:build unix

package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/tunnel/wiretest"
)

// relayProcess is a `lane relay` of its own process.
type relayProcess struct {
	*process
	f                *field
	addr, pin, admin string
	ports, audit     string
}

// relay starts a relay at a free port, with ports of its own for claims.
func (f *field) relay(args ...string) *relayProcess {
	f.t.Helper()
	ln, err := consultest.Listen()
	if err != nil {
		f.t.Fatal(err)
	}
	r := &relayProcess{f: f, addr: ln.Addr().String(), ports: claimPorts(), audit: filepath.Join(f.dir, fmt.Sprintf("audit-%d.json", relays.Add(1)))}
	if err := ln.Close(); err != nil {
		f.t.Fatal(err)
	}
	r.start(args...)
	return r
}

var relays atomic.Int32

// start starts it, again if it has ended, at the same port.
func (r *relayProcess) start(args ...string) {
	r.f.t.Helper()
	r.process = r.f.start(append([]string{"lane", "relay", "--listen", r.addr, "--advertise", "127.0.0.1", "--ports", r.ports, "--audit", r.audit, "--admin", "127.0.0.1:0"}, args...)...)
	r.pin = r.says(`^fingerprint (\S+)$`)
	r.admin = r.says(`^admin at (?:http://)?(\S+)$`)
}

// lines are the messages of its audit log about a service.
func (r *relayProcess) lines(msg string) (out []map[string]string) {
	r.f.t.Helper()
	b, err := os.ReadFile(r.audit)
	if err != nil {
		r.f.t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			r.f.t.Fatalf("%s: %v", line, err)
		}
		if v["msg"] != msg {
			continue
		}
		m := map[string]string{}
		for k := range v {
			m[k] = fmt.Sprint(v[k])
		}
		out = append(out, m)
	}
	return out
}

// wire is a way to an address that the test can freeze and cut.
func (f *field) wire(to string, c wiretest.Config) *wiretest.Wire {
	f.t.Helper()
	w, err := wiretest.New(to, c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(w.Close)
	return w
}

// machine is another machine of the field, with settings of its own.
func (f *field) machine(env ...string) *field {
	f.t.Helper()
	runtime, err := os.MkdirTemp("", "lane")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	m := *f
	m.env = append(append(slices.Clone(f.env), "LANE_RUNTIME_DIR="+runtime, "LANE_STATE_DIR="+filepath.Join(f.t.TempDir(), "state")), env...) // of two the last one counts
	return &m
}

// token makes a token of a user's, who may do everything in the lanes, and returns its
// file.
func (f *field) token(user string, lanes ...string) string {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), "token")
	f.run("lane", "relay", "token", "create", "--user", user, "--lanes", strings.Join(lanes, ","), "--out", path)
	return path
}

// laptop is a machine that comes in by a relay at an address.
func (f *field) laptop(r *relayProcess, addr, token string, env ...string) *field {
	f.t.Helper()
	return f.machine(append([]string{"LANE_RELAY=wss://" + addr + "#" + r.pin, "LANE_RELAY_TOKEN_FILE=" + token}, env...)...)
}

// status is what the machine's only session says of itself; nothing, if it does not answer.
func (f *field) status() (st control.Status) {
	f.t.Helper()
	ctx, cancel := storyContext()
	defer cancel()
	found, _, err := control.Sessions(ctx, f.getenv("LANE_RUNTIME_DIR"))
	if err != nil {
		f.t.Fatal(err)
	}
	if len(found) > 1 {
		f.t.Fatalf("%d sessions", len(found))
	}
	for _, s := range found {
		st = s.Status
	}
	return st
}

// getenv is a variable of the machine's programs.
func (f *field) getenv(name string) (value string) {
	for _, kv := range f.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// relayState is the state of the machine's tunnel.
func (f *field) relayState() string {
	f.t.Helper()
	if st := f.status(); st.Relay != nil {
		return st.Relay.State
	}
	return ""
}

// placed are the instances of a service that are a lane's.
func (f *field) placed(service, l string) (out []lane.Instance) {
	f.t.Helper()
	ctx, cancel := storyContext()
	defer cancel()
	var all []lane.Instance
	f.eventually("the registry says who serves "+service, func() (ok bool) {
		var err error
		all, err = f.client.InstancesOf(ctx, service)
		return err == nil
	})
	return slices.DeleteFunc(all, func(in lane.Instance) bool { return in.MetaLane != l })
}

// stands waits until a lane has a service once, healthy, and returns its address.
func (f *field) stands(service, l string) string {
	f.t.Helper()
	var in []lane.Instance
	f.eventually(l+" has one healthy instance of "+service, func() bool {
		in = f.placed(service, l)
		return len(in) == 1 && in[0].Health == lane.Passing
	})
	return in[0].Addr
}

// claimOf is who holds a service in a lane.
func (f *field) claimOf(service, l string) (lane.Claim, bool) {
	f.t.Helper()
	ctx, cancel := storyContext()
	defer cancel()
	var all []lane.Claim
	f.eventually("the registry says what is claimed", func() (ok bool) {
		var err error
		all, err = f.client.Claims(ctx, lane.Name(l))
		return err == nil
	})
	i := slices.IndexFunc(all, func(c lane.Claim) bool { return c.Service == service && c.Session != "" })
	if i < 0 {
		return lane.Claim{}, false
	}
	return all[i], true
}

// use is what a process has of a resource, as /proc tells it; ok is false where nothing
// does.
func (p *process) use(name string) (n int, ok bool) {
	p.f.t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, false
	}
	m := regexp.MustCompile(name + `:\s+(\d+)`).FindSubmatch(b)
	if m == nil {
		return 0, false
	}
	n, err = strconv.Atoi(string(m[1]))
	return n, err == nil
}
