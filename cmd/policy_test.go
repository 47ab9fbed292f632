//go:build unix

package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
)

// guarded is a Consul that denies by default, a baseline in it, and a developer's
// machine with a process of its own.
type guarded struct {
	t        *testing.T
	registry string
	local    string // port
	dir      string
	tokens   int
}

const guardedRoot = "2f9c1a34-6b0e-4a57-9d5e-000000000002"

func newGuarded(t *testing.T, binary string) *guarded {
	t.Helper()
	g := &guarded{t: t, registry: consultest.StartACL(t, binary, guardedRoot)}
	serve := func(name string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) }))
		t.Cleanup(srv.Close)
		_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
		return port
	}
	g.local = serve("the local process")
	for _, name := range []string{"orders", "stock"} {
		port, err := strconv.Atoi(serve("the baseline"))
		if err != nil {
			t.Fatal(err)
		}
		g.call("PUT", "/v1/agent/service/register", map[string]any{"ID": name + "-1", "Name": name, "Address": "127.0.0.1", "Port": port}, nil)
	}
	g.call("PUT", "/v1/kv/lane/declared/dev-carol/stock", "", nil) // what one may not read is there
	dir, err := os.MkdirTemp("", "lane")                           // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g.dir = dir
	return g
}

// call asks the registry as its root.
func (g *guarded) call(method, path string, in, out any) {
	g.t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := storyContext()
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+g.registry+path, strings.NewReader(string(b)))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("X-Consul-Token", guardedRoot)
	res, err := (&http.Transport{Proxy: nil, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err = io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		g.t.Fatalf("%s %s: %s %s %v", method, path, res.Status, b, err)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			g.t.Fatal(err)
		}
	}
}

// token makes a token with a policy of these rules.
func (g *guarded) token(rules string) string {
	g.t.Helper()
	g.tokens++
	name := "p" + strconv.Itoa(g.tokens)
	g.call("PUT", "/v1/acl/policy", map[string]any{"Name": name, "Rules": rules}, nil)
	var out struct{ SecretID string }
	g.call("PUT", "/v1/acl/token", map[string]any{"Policies": []map[string]string{{"Name": name}}}, &out)
	return out.SecretID
}

// person is one developer with a machine and a token.
type person struct {
	g     *guarded
	name  string
	token string
}

// lane runs the program as this person.
func (p *person) lane(args ...string) (out string, err error) {
	ctx, cancel := storyContext()
	defer cancel()
	exe, err := exec.LookPath("lane")
	if err != nil {
		p.g.t.Fatal(err)
	}
	c := exec.CommandContext(ctx, exe, args...)
	home := filepath.Join(p.g.dir, p.name)
	c.Dir = p.g.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANE_STATE_DIR=" + home + "/s", "LANE_RUNTIME_DIR=" + home + "/r",
		"CONSUL_HTTP_ADDR=" + p.g.registry, "CONSUL_HTTP_TOKEN=" + p.token, "LANE_OWNER=" + p.name, "LANE_PROXY_LISTEN=127.0.0.1:0", atOnce}
	b, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("lane %s: %w\n%s", strings.Join(args, " "), err, b)
	}
	return string(b), err
}

// leftovers are the instances, claims and sessions of lanes in the registry.
func (g *guarded) leftovers() (left []string) {
	g.t.Helper()
	var services map[string]struct{ ID string }
	g.call("GET", "/v1/agent/services", nil, &services)
	for id := range services {
		if strings.HasPrefix(id, "lane:") {
			left = append(left, "instance "+id)
		}
	}
	var sessions []struct{ ID, Name string }
	g.call("GET", "/v1/session/list", nil, &sessions)
	for _, s := range sessions {
		left = append(left, "session "+s.Name) // a claim falls with its session
	}
	return left
}

// gone waits until nothing of a lane is left.
func (g *guarded) gone() error {
	g.t.Helper()
	ctx, cancel := storyContext()
	defer cancel()
	for {
		left := g.leftovers()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("left in the registry: %v", left)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sweep removes, as the registry's root, what a story that failed has left.
func (g *guarded) sweep() {
	g.t.Helper()
	var services map[string]struct{ ID string }
	g.call("GET", "/v1/agent/services", nil, &services)
	for id := range services {
		if strings.HasPrefix(id, "lane:") {
			g.call("PUT", "/v1/agent/service/deregister/"+id, nil, nil)
		}
	}
	var sessions []struct{ ID string }
	g.call("GET", "/v1/session/list", nil, &sessions)
	for _, s := range sessions {
		g.call("PUT", "/v1/session/destroy/"+s.ID, nil, nil)
	}
}

// step is one command of a person, and a word of what it has to say.
type step struct {
	who  *person
	want string
	args []string
}

func (s step) run() error {
	out, err := s.who.lane(s.args...)
	switch {
	case err != nil:
		return err
	case !strings.Contains(out, s.want):
		return fmt.Errorf("lane %s: no %q in\n%s", strings.Join(s.args, " "), s.want, out)
	case strings.Contains(out, "the token"):
		return fmt.Errorf("lane %s warns:\n%s", strings.Join(s.args, " "), out)
	}
	return nil
}

func runSteps(all ...step) error {
	for _, s := range all {
		if err := s.run(); err != nil {
			return err
		}
	}
	return nil
}

func (p *person) up(mode string, more ...string) step {
	return step{p, "lane dev-alice is up", append([]string{"up", "dev-alice", "-s", "orders=" + p.g.local, "--register", mode, "-d"}, more...)}
}

func (p *person) curls(service, want string) step {
	return step{p, want, []string{"curl", "-s", "-S", "http://" + service + "/"}}
}

// firstSteps are those in which each right is used.
func (p *person) firstSteps(mode string) error {
	err := runSteps(p.up(mode), p.curls("orders", "the local process"), p.curls("stock", "the baseline"))
	if err != nil {
		return err
	}
	return p.remembered()
}

// remembered waits until the session has written when it was last called, or says that
// it may not.
func (p *person) remembered() error {
	ctx, cancel := storyContext()
	defer cancel()
	for {
		err := runSteps(step{p, "fresh", []string{"status", "--plain"}})
		if err != nil {
			return err
		}
		out, err := p.lane("show", "dev-alice")
		if err != nil || strings.Contains(out, "last active") {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("when it was last called is not shown:\n%s", out)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// mainStories are what a developer does with a lane, and a colleague with the same.
func mainStories(alice, bob *person, mode string) error {
	err := runSteps(
		step{alice, "dev-alice", []string{"ls"}},
		step{alice, "claimed by alice", []string{"show", "dev-alice"}},
		step{alice, "LANE_MATCH", []string{"explain", "http://orders/"}},
		step{alice, "FALLBACK_BASELINE", []string{"explain", "http://stock/"}},
		step{alice, "untagged", []string{"verify", "http://orders/"}},
		bob.up(mode, "--takeover"),
		bob.curls("orders", "the local process"),
		step{alice, "dev-alice", []string{"down", "dev-alice"}}, // its session may have ended by itself
		step{bob, "is down", []string{"down", "dev-alice"}},
	)
	if err != nil {
		return err
	}
	return alice.g.gone()
}

// crash has the guardian clean up.
func (p *person) crash(mode string) error {
	if err := p.up(mode).run(); err != nil {
		return err
	}
	if err := p.kill(); err != nil {
		return err
	}
	return p.g.gone()
}

// kill ends this person's only session as a crash does.
func (p *person) kill() error {
	out, err := p.lane("status", "--json")
	if err != nil {
		return err
	}
	var st struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(out), &st); err != nil || st.PID < 2 {
		return errors.Join(fmt.Errorf("status: %s", out), err)
	}
	return syscall.Kill(st.PID, syscall.SIGKILL)
}

// clean removes, as the registry's root, what a story that failed has left.
func (p *person) clean() {
	p.g.t.Helper()
	p.token = guardedRoot
	if running, _ := filepath.Glob(filepath.Join(p.g.dir, p.name, "r", "*.sock")); len(running) > 0 {
		if _, err := p.lane("down", "dev-alice", "--force"); err != nil {
			p.g.t.Error(err)
		}
	}
	p.g.sweep()
}

// The printed policies, in a registry that denies all else: everything works with
// exactly them, and each rule that is taken away is missed, by its name.
func TestThePrintedPolicyIsTheLeast(t *testing.T) {
	binary := consultest.Needed(t) // the embedded registry has no access control
	g := newGuarded(t, binary)
	people := func(mode string) (alice, bob *person, policy string) {
		_, policy, errOut := offline(t, "doctor", "--policy", "--lane", "dev-alice", "-s", "orders", "--mode", mode)
		if errOut != "" {
			t.Fatal(errOut)
		}
		token := g.token(policy)
		return &person{g, "alice", token}, &person{g, "bob", token}, policy
	}
	for _, mode := range []string{"shared", "isolated", "auto"} {
		alice, bob, policy := people(mode)
		err := alice.firstSteps(mode)
		if err == nil && mode == "auto" { // its rights are those of both
			err = mainStories(alice, bob, mode)
		}
		alice.clean()
		if err == nil && mode != "shared" {
			alice, _, _ = people(mode)
			err = alice.crash(mode)
		}
		if err != nil {
			t.Fatalf("%s mode with\n%s%v", mode, policy, err)
		}
	}
	_, _, policy := people("auto")
	const isolated = `service "lane-dev-alice-orders" { policy = "write" }`
	for _, rule := range rulesIn(policy) {
		if rule != isolated { // which is missed below
			g.missed("auto", policy, rule)
		}
	}
	// Isolated because somebody has learned that it has to be.
	g.call("PUT", "/v1/kv/lane/policy/orders", map[string]string{"mode": "isolated", "caller": "10.0.0.7"}, nil)
	alice, _, _ := people("auto")
	if err := alice.firstSteps("auto"); err != nil {
		t.Errorf("auto mode, learned: %v", err)
	}
	alice.clean()
	g.missed("auto", policy, isolated)
}

// missed takes a rule away, and wants an error that names it.
func (g *guarded) missed(mode, policy, rule string) {
	g.t.Helper()
	alice := &person{g, "alice", g.token(strings.Replace(policy, rule, "", 1))}
	err := alice.firstSteps(mode)
	if right := rightIn(g.t, rule); err == nil {
		g.t.Errorf("%s mode: everything works without %s", mode, rule)
	} else if !strings.Contains(err.Error(), right) {
		g.t.Errorf("%s mode without %s: no word of %s:\n%v", mode, rule, right, err)
	}
	alice.clean()
}

// rulesIn are the rules of a policy, each one line.
func rulesIn(policy string) (rules []string) {
	for line := range strings.Lines(policy) {
		if !strings.HasPrefix(line, "#") {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	return rules
}

var ruleForm = regexp.MustCompile(`^([a-z]+?)(?:_prefix)? "([^"]*)" { policy = "([a-z]+)" }$`)

// rightIn is how errors name the right of a rule, and for a key or a service that is
// one of the lane's, which.
func rightIn(t *testing.T, rule string) string {
	t.Helper()
	m := ruleForm.FindStringSubmatch(rule)
	if m == nil {
		t.Fatalf("no rule: %s", rule)
	}
	if strings.HasPrefix(m[2], "lane/policy/") {
		return `key:read on the prefix "lane/policy/"` // it is read first
	}
	return m[1] + ":" + m[3]
}

// The same for a gateway: it announces itself, has the rules and reads a whitelist in
// the registry, by the policy that doctor prints and by the one for all routers.
func TestAGatewaysPrintedPolicyIsTheLeast(t *testing.T) {
	binary := consultest.Needed(t) // the embedded registry has no access control
	t.Parallel()
	g := newGuarded(t, binary)
	root := &person{g, "root", guardedRoot}
	rules := filepath.Join(g.dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(strings.ReplaceAll(listedRules, "entry: shop", "entry: orders")), 0o600); err != nil {
		t.Fatal(err)
	}
	err := runSteps(step{root, "", []string{"rules", "push", rules}}, step{root, "", []string{"rules", "whitelist", "add", "buyer-api", "ann"}})
	if err != nil {
		t.Fatal(err)
	}
	_, least, _ := offline(t, "doctor", "--policy=gateway")
	_, router, _ := offline(t, "rules", "policies", "lane-router")
	// gateway is what one can do with a policy: its exit code if it does not start,
	// and whether it colors.
	gateway := func(policy string) (code int, said string, colored bool) {
		f := newFieldOn(t, g.registry)
		f.env = append(f.env, "CONSUL_HTTP_TOKEN="+g.token(policy))
		p := f.start("lane", "gateway", "--listen", "127.0.0.1:0", "--route", "orders")
		p.ends = true
		f.eventually("the gateway is announced, or has ended", func() bool {
			select {
			case <-p.done:
				return true
			default:
			}
			var found []struct{ ID string }
			g.call("GET", "/v1/health/service/lane-gateway?passing", nil, &found)
			return len(found) > 0 && strings.Contains(p.out.String(), "gateway at ")
		})
		select {
		case <-p.done:
			return p.cmd.ProcessState.ExitCode(), p.err.String(), false
		default:
		}
		defer p.end()
		at := p.says(`^gateway at http://(\S+)$`)
		for range 100 { // a look-up that came late is the baseline, for a second
			r, err := f.caller().get(at, "X-Buyer-Id", "ann")
			if err != nil {
				t.Fatal(err)
			}
			if r.status != http.StatusOK {
				return 0, r.String(), false
			}
			if strings.Contains(r.head.Get("X-Lane-Decision"), "lane=dev-alice") {
				return 0, p.err.String(), true
			}
		}
		return 0, p.err.String(), false
	}
	for name, policy := range map[string]string{"doctor's": least, "lane-router": router} {
		if code, said, colored := gateway(policy); code != 0 || !colored {
			t.Errorf("%s policy: exit code %d, colored %v\n%s\n%s", name, code, colored, policy, said)
		}
	}
	for _, rule := range rulesIn(least) {
		code, said, colored := gateway(strings.Replace(least, rule, "", 1))
		announces := strings.HasPrefix(rule, `service "lane-gateway"`)
		switch {
		case announces && (code != exitFailed || !strings.Contains(said, "service:write")):
			t.Errorf("without %s: exit code %d\n%s", rule, code, said)
		case strings.Contains(rule, "lane/switches/"):
			continue // a switch that nobody has thrown is not missed
		case !announces && colored:
			t.Errorf("without %s: it is colored\n%s", rule, said)
		}
	}
}

// What docs/relay.md says that a relay needs is what lane doctor prints.
func TestTheRelaysPolicyIsInItsDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/relay.md")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := offline(t, "doctor", "--policy=relay")
	rules := rulesIn(policy)
	for _, rule := range rules {
		if !strings.Contains(string(page), "\n"+rule+"\n") {
			t.Errorf("docs/relay.md lacks %s", rule)
		}
	}
	if n := strings.Count(string(page), "{ policy = "); n != len(rules) {
		t.Errorf("docs/relay.md has %d rules, and lane doctor %d", n, len(rules))
	}
}
