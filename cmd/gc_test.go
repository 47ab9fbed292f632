package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// desk is one developer's machine beside a registry: the program runs in this
// process.
type desk struct {
	t        *testing.T
	registry string
	env      map[string]string
	install  string
	host     string
}

func newDesk(t *testing.T, registry string) *desk {
	t.Helper()
	runtime, err := os.MkdirTemp("", "lane") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	d := &desk{t: t, registry: registry, env: map[string]string{
		"CONSUL_HTTP_ADDR": registry, "LANE_STATE_DIR": t.TempDir(), "LANE_RUNTIME_DIR": runtime, "LANE_OWNER": "alice"}}
	if d.install, err = config.InstallID(d.env["LANE_STATE_DIR"]); err != nil {
		t.Fatal(err)
	}
	d.host, _ = os.Hostname()
	return d
}

// run runs a command line.
func (d *desk) run(args ...string) (code int, out, errOut string) {
	d.t.Helper()
	s, _, stdout, stderr := iostreams.Test()
	code = d.factory(s).run(d.t.Context(), args)
	return code, stdout.String(), stderr.String()
}

func (d *desk) factory(s *iostreams.IOStreams) *factory {
	var environ []string
	for k, v := range d.env {
		environ = append(environ, k+"="+v)
	}
	return &factory{io: s, getenv: func(k string) string { return d.env[k] }, environ: environ, dir: d.t.TempDir(), now: time.Now,
		executable: os.Executable, build: debug.ReadBuildInfo}
}

// call asks the registry.
func (d *desk) call(method, path string, in, out any) {
	d.t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.registry+path, bytes.NewReader(b))
	if err != nil {
		d.t.Fatal(err)
	}
	res, err := (&http.Transport{Proxy: nil, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err = io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		d.t.Fatalf("%s %s: %s %s %v", method, path, res.Status, b, err)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			d.t.Fatal(err)
		}
	}
}

// instance registers an instance with a liveness check in a state, and takes it out at
// the end of the test.
func (d *desk) instance(id, name string, meta map[string]string, status string) {
	d.t.Helper()
	d.call("PUT", "/v1/agent/service/register", map[string]any{"ID": id, "Name": name, "Address": "127.0.0.1", "Port": 8080, "Meta": meta,
		"Checks": []map[string]any{{"CheckID": id + ":live", "TTL": "1h", "Status": status}}}, nil)
}

// laneInstance registers an instance of a lane.
func (d *desk) laneInstance(l, service, install, status string) (id string) {
	d.t.Helper()
	id = consul.InstanceID(lane.Name(l), service, install)
	d.instance(id, service, map[string]string{"lane": l, "lane-service": service, "lane-owner": "somebody"}, status)
	return id
}

// claim holds a claim under a session of its own, and returns the session.
func (d *desk) claim(l, service, install, host string) string {
	d.t.Helper()
	var s struct{ ID string }
	d.call("PUT", "/v1/session/create", map[string]any{"NodeChecks": []string{}, "TTL": "10m", "Behavior": "delete", "LockDelay": "1ms"}, &s)
	value := map[string]string{"owner": "somebody", "host": host, "install": install, "session": s.ID, "mode": "shared", "registered": service,
		"id": consul.InstanceID(lane.Name(l), service, install), "since": "2026-01-02T03:04:05Z"}
	d.call("PUT", "/v1/kv/lane/declared/"+l+"/"+service+"?acquire="+s.ID, value, nil)
	return s.ID
}

// holds are the IDs of the instances and the keys that the registry has, sorted.
func (d *desk) holds() []string {
	d.t.Helper()
	var services map[string]struct{ ID string }
	var keys []string
	d.call("GET", "/v1/agent/services", nil, &services)
	d.call("PUT", "/v1/kv/x", "x", nil) // a store without keys answers 404
	d.call("GET", "/v1/kv/?keys", nil, &keys)
	for id := range services {
		keys = append(keys, id)
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == "x" })
	slices.Sort(keys)
	return keys
}

// sessionOf runs the control API of a session of this machine.
func (d *desk) sessionOf(l string, services ...string) {
	d.t.Helper()
	srv, err := control.Listen(d.env["LANE_RUNTIME_DIR"])
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	st := control.Status{Schema: control.StatusSchema, Lane: lane.Name(l), PID: os.Getpid()}
	for _, s := range services {
		st.Services = append(st.Services, control.Service{Name: s})
	}
	go func() { done <- srv.Serve(ctx, fixedSession{st}, nil) }()
	d.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			d.t.Error(err)
		}
	})
}

type fixedSession struct{ st control.Status }

func (s fixedSession) Status(context.Context) control.Status { return s.st }
func (s fixedSession) Stop(context.Context, bool) error      { return nil }
func (s fixedSession) Reconnect()                            {}
func (s fixedSession) Messages(context.Context, *traffic.Exchange) traffic.Messages {
	return traffic.Messages{}
}

// deadSocket leaves the socket of a process that has died.
func (d *desk) deadSocket() string {
	d.t.Helper()
	path := filepath.Join(d.env["LANE_RUNTIME_DIR"], "1.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		d.t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := ln.Close(); err != nil {
		d.t.Fatal(err)
	}
	return path
}

func (d *desk) log(name string) string {
	d.t.Helper()
	dir := filepath.Join(d.env["LANE_STATE_DIR"], "log")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		d.t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Two sessions live, one of them here; what others left, what we left, and what only
// looks like ours.
func TestGCRemovesTheDeadAlone(t *testing.T) {
	consultest.EachOwn(t, func(t *testing.T, addr string) {
		d := newDesk(t, addr)
		before := d.holds()
		d.sessionOf("dev-alice", "orders")
		d.laneInstance("dev-alice", "orders", d.install, "critical") // ours, and it runs: a breakpoint, a slow beat
		d.claim("dev-alice", "orders", d.install, d.host)
		d.laneInstance("dev-bob", "orders", "b0b", "passing")
		d.claim("dev-bob", "orders", "b0b", "desk-7")
		d.laneInstance("dev-bob", "stock", "b0b", "critical") // it sleeps: its claim stands
		d.claim("dev-bob", "stock", "b0b", "desk-7")
		d.laneInstance("dev-carol", "orders", "ca01", "passing") // nobody claims it, and it beats
		d.instance("orders-1", "orders", nil, "critical")
		d.instance("orders-of-lane-dev-dave", "orders", map[string]string{"lane": "dev-dave"}, "critical")
		d.instance("lane:dev-dave:orders:1", "orders", map[string]string{"lane": "dev-erin"}, "critical") // it says two things
		d.instance("lane:dev-dave:orders", "orders", map[string]string{"lane": "dev-dave"}, "critical")
		alive := d.holds()
		runningLog := d.log("dev-alice.20260101-000000.2.log")

		var dead []string
		dead = append(dead, d.laneInstance("dev-dave", "stock", "da7e", "critical"))     // another machine's
		dead = append(dead, d.laneInstance("dev-alice", "stock", d.install, "critical")) // ours, killed, claim and all
		d.claim("dev-alice", "stock", d.install, d.host)
		d.call("PUT", "/v1/kv/lane/declared/dev-dave/stock", map[string]string{"owner": "dave"}, nil)
		dead = append(dead, "lane/declared/dev-alice/stock", "lane/declared/dev-dave/stock", d.deadSocket(), d.log("dev-alice.20250101-000000.1.log"))
		slices.Sort(dead)

		for _, look := range [][]string{{"gc"}, {"gc", "--dry-run"}, {"gc", "--json"}} {
			full := d.holds()
			code, out, errOut := d.run(look...)
			if code != exitOK || !slices.Equal(d.holds(), full) || !there(dead[0]) {
				t.Errorf("%v: %d, registry %v\n%s%s", look, code, d.holds(), out, errOut)
			}
			if got := strings.Count(out, "dev-"); got == 0 {
				t.Errorf("%v lists nothing:\n%s%s", look, out, errOut)
			}
		}
		code, out, errOut := d.run("gc", "--yes", "--json")
		var res gcResult
		if err := json.Unmarshal([]byte(out), &res); err != nil || code != exitOK || res.DryRun {
			t.Fatalf("%d %v\n%s%s", code, err, out, errOut)
		}
		var removed []string
		for _, it := range res.Items {
			if it.Kept != "" {
				t.Errorf("left: %+v", it)
			}
			removed = append(removed, it.ID)
		}
		slices.Sort(removed)
		if !slices.Equal(removed, dead) {
			t.Errorf("removed %q\nwant %q", removed, dead)
		}
		if got := d.holds(); !slices.Equal(got, alive) {
			t.Errorf("the registry holds %q\nwant %q", got, alive)
		}
		if there(dead[0]) || there(dead[1]) || !there(runningLog) {
			t.Errorf("%v there: %v %v; %s there: %v", dead[:2], there(dead[0]), there(dead[1]), runningLog, there(runningLog))
		}
		if code, out, errOut := d.run("gc", "--yes"); code != exitOK || out != "" || !strings.Contains(errOut, "nothing is left") {
			t.Errorf("again: %d\n%s%s", code, out, errOut)
		}
		for _, id := range d.holds() { // the registry may be shared
			if !slices.Contains(before, id) && !strings.HasPrefix(id, "lane/") {
				d.call("PUT", "/v1/agent/service/deregister/"+id, nil, nil)
			}
		}
	})
}

// What was killed a moment ago still beats: it is left, which is no failure, and it is
// said when it can be told. When its check has failed, it goes.
func TestGCSaysToComeAgainForWhatStillBeats(t *testing.T) {
	d := newDesk(t, consultest.Embedded(t))
	id := d.laneInstance("dev-alice", "orders", d.install, "passing")
	code, out, errOut := d.run("gc", "--yes")
	if code != exitOK || !strings.Contains(out, "if it is dead, in 15 s it does not: run lane gc again then") || !slices.Contains(d.holds(), id) {
		t.Errorf("it beats: %d, registry %v\n%s%s", code, d.holds(), out, errOut)
	}
	d.call("PUT", "/v1/agent/check/fail/"+id+":live", nil, nil)
	if code, out, errOut := d.run("gc", "--yes"); code != exitOK || strings.Contains(out, "again") || slices.Contains(d.holds(), id) {
		t.Errorf("it does not: %d, registry %v\n%s%s", code, d.holds(), out, errOut)
	}
}

// A session that does not answer may hold anything of ours.
func TestGCLeavesWhatASilentSessionMayHold(t *testing.T) {
	d := newDesk(t, consultest.Embedded(t))
	d.laneInstance("dev-alice", "orders", d.install, "critical")
	d.claim("dev-alice", "orders", d.install, d.host)
	d.log("dev-alice.20250101-000000.1.log")
	old := d.log("dev-alice.20250101-000000.0.log")
	ln, err := net.Listen("unix", filepath.Join(d.env["LANE_RUNTIME_DIR"], "2.sock")) // it accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	before := d.holds()
	for _, how := range []string{"--yes", "--dry-run"} {
		code, out, errOut := d.run("gc", how)
		if code != exitUnreachable || !slices.Equal(d.holds(), before) || !there(old) || strings.Contains(errOut, "nothing is left") ||
			!strings.Contains(errOut, "claims, instances and logs were not looked at: the session with the process id 2 does not answer") ||
			!strings.Contains(errOut, "kill -CONT 2") {
			t.Errorf("%s: %d, %q, log there: %v\n%s%s", how, code, d.holds(), there(old), out, errOut)
		}
	}
	var res gcResult
	if code, out, errOut := d.run("gc", "--json"); code != exitUnreachable || json.Unmarshal([]byte(out), &res) != nil ||
		!slices.Equal(res.Silent, []int{2}) || len(res.Items) != 0 {
		t.Errorf("%d %+v\n%s%s", code, res, out, errOut)
	}
	dead := d.laneInstance("dev-dave", "stock", "da7e", "critical") // another machine's is seen all the same
	if code, out, errOut := d.run("gc", "--yes"); code != exitUnreachable || !slices.Equal(d.holds(), before) ||
		!strings.Contains(out, dead) || !strings.Contains(errOut, "kill -CONT 2") {
		t.Errorf("beside another's: %d, %q\n%s%s", code, d.holds(), out, errOut)
	}
	_ = ln.Close()
	if code, out, errOut := d.run("gc", "--yes"); code != exitOK || len(d.holds()) != 0 || there(old) || strings.Contains(errOut, "not looked at") {
		t.Errorf("when it is gone: %d, %q, log there: %v\n%s%s", code, d.holds(), there(old), out, errOut)
	}
}

func TestGCAsksAtATerminal(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "yes\n": true, "n\n": false, "\n": false, "": false} {
		t.Run(fmt.Sprintf("%q", answer), func(t *testing.T) {
			d := newDesk(t, consultest.Embedded(t))
			d.laneInstance("dev-dave", "stock", "da7e", "critical")
			s, in, out, errOut := iostreams.Test()
			s.IsStdinTTY, s.IsStderrTTY, s.IsStdoutTTY = true, true, true
			in.WriteString(answer)
			if code := d.factory(s).run(t.Context(), []string{"gc"}); code != exitOK || !strings.Contains(errOut.String(), "remove 1 leftover? [y/N]") {
				t.Errorf("%d\n%s%s", code, out, errOut)
			}
			if removed := len(d.holds()) == 0; removed != want || strings.Contains(out.String(), "removed") != want {
				t.Errorf("removed: %v\n%s%s", removed, out, errOut)
			}
		})
	}
}

// Without the registry this machine's own leftovers go all the same.
func TestGCWithoutARegistry(t *testing.T) {
	d := newDesk(t, "127.0.0.1:1")
	sock := d.deadSocket()
	if code, _, errOut := d.run("gc", "--yes"); code != exitUnreachable || there(sock) || !strings.Contains(errOut, "nothing in the registry was looked at") {
		t.Errorf("%d, socket there: %v\n%s", code, there(sock), errOut)
	}
	if code, _, errOut := d.run("gc", "--dry-run"); code != exitUnreachable || strings.Contains(errOut, "nothing is left") {
		t.Errorf("again: %d\n%s", code, errOut)
	}
	if code, _, _ := d.run("gc", "--yes", "--dry-run"); code != exitUsage {
		t.Errorf("--yes --dry-run: %d", code)
	}
}

// An ID is unique on its node alone, and only the node's own agent removes it.
func TestGCPlanByNode(t *testing.T) {
	m := machine{install: "me", host: "here"}
	e := func(node string, alive bool) consul.Entry {
		return consul.Entry{Lane: "dev-bob", Service: "orders", Install: "b0b", ID: "lane:dev-bob:orders:b0b", Name: "orders", Node: node, Alive: alive}
	}
	for _, c := range []struct {
		name    string
		entries []consul.Entry
		want    []string // "node" is removed, "-node" is left
	}{
		{"dead", []consul.Entry{e("n1", false)}, []string{"n1"}},
		{"alive", []consul.Entry{e("n1", true)}, nil},
		{"dead here, alive there", []consul.Entry{e("n1", false), e("n2", true)}, []string{"-n1"}},
		{"dead on both", []consul.Entry{e("n1", false), e("n2", false)}, []string{"n1", "n2"}},
	} {
		var got []string
		for _, it := range planGC(consul.Remains{Entries: c.entries}, m) {
			if it.Kept != "" {
				it.Node = "-" + it.Node
			}
			got = append(got, it.Node)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A crash of a moment ago cannot be told from a session that this machine does not
// see: it is left, and said.
func TestGCPlanOfAnOwnInstanceThatStillPasses(t *testing.T) {
	m := machine{install: "me", host: "here"}
	r := consul.Remains{
		Entries: []consul.Entry{{Lane: "dev-alice", Service: "orders", Install: "me", ID: "lane:dev-alice:orders:me", Name: "orders", Node: "n1", Alive: true}},
		Claims:  []consul.Held{{Claim: lane.Claim{Lane: "dev-alice", Service: "orders", Install: "me", Host: "here", Session: "s1", ID: "lane:dev-alice:orders:me"}}},
	}
	items := planGC(r, m)
	if len(items) != 1 || items[0].Kept == "" || items[0].Failed {
		t.Errorf("%+v", items)
	}
	r.Claims[0].Host = "there" // a home that two machines share
	if items := planGC(r, m); len(items) != 0 {
		t.Errorf("another machine's: %+v", items)
	}
	r.Entries[0].Alive = false
	if items := planGC(r, m); len(items) != 0 {
		t.Errorf("another machine's, asleep: %+v", items)
	}
	r.Claims[0].Host = "here"
	if items := planGC(r, m); len(items) != 2 || items[0].Kind != gcClaim || items[1].Kind != gcInstance || items[1].Kept != "" {
		t.Errorf("dead: %+v", items)
	}
}

// What a relay holds for this machine is the relay's to remove: its session holds the
// claims of others, too.
func TestGCPlanOfWhatARelayHolds(t *testing.T) {
	m := machine{install: "me", host: "here"}
	r := consul.Remains{
		Entries: []consul.Entry{{Lane: "dev-alice", Service: "orders", Install: "me", ID: "lane:dev-alice:orders:me", Name: "orders", Node: "n1"}},
		Claims:  []consul.Held{{Claim: lane.Claim{Lane: "dev-alice", Service: "orders", Install: "me", Host: "here", Session: "s1", ID: "lane:dev-alice:orders:me", Relay: "relay-1:443"}}},
	}
	if items := planGC(r, m); len(items) != 0 {
		t.Errorf("%+v", items)
	}
	r.Claims[0].Relay = ""
	if items := planGC(r, m); len(items) != 2 {
		t.Errorf("without a relay: %+v", items)
	}
}

func TestGCPlanOfAnActivityWithoutItsClaim(t *testing.T) {
	r := consul.Remains{Activity: []consul.Activity{{Lane: "dev-alice", Service: "orders"}}}
	items := planGC(r, machine{})
	if len(items) != 1 || items[0].Kind != gcKey || items[0].ID != "lane/activity/dev-alice/orders" || items[0].do == nil {
		t.Errorf("%+v", items)
	}
}
