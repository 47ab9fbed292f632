//go:build unix

package cmd

import (
	"os"
	"slices"
	"strings"
	"testing"

	"lane/pkg/consul/consultest"
)

// relayedDay is what a relay and a laptop do by two policies: the laptop comes in, is
// called, and goes. It returns what they say that is wrong, and whether the last activity
// was written.
func (g *guarded) relayedDay(relay, relayed string) (said string, active bool) {
	g.t.Helper()
	f, laptop := newFieldOn(g.t, g.registry), newFieldOn(g.t, g.registry)
	f.env = append(f.env, "CONSUL_HTTP_TOKEN="+g.token(relay))
	token := f.file("token", "")
	f.run("lane", "relay", "token", "create", "--user", "alice", "--out", token)
	p := f.start("lane", "relay", "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1", "--ports", "32700-32760")
	p.ends = true
	f.eventually("the relay is announced, or has ended", func() bool {
		select {
		case <-p.done:
			return true
		default:
		}
		var found []struct{ ID string }
		g.call("GET", "/v1/health/service/lane-relay?passing", nil, &found)
		return len(found) > 0 && strings.Contains(p.out.String(), "relay at ")
	})
	select {
	case <-p.done:
		return p.err.String(), false
	default:
	}
	defer p.end()
	at, pin := p.says(`^relay at (wss://\S+)$`), p.says(`^fingerprint (\S+)$`)
	laptop.env = append(laptop.env, "CONSUL_HTTP_TOKEN="+g.token(relayed), "LANE_RELAY="+at+"#"+pin, "LANE_RELAY_TOKEN_FILE="+token)
	up := laptop.start("lane", "up", "dev-alice", "-s", "orders="+g.local, "-d")
	up.ends = true
	<-up.done
	all := func() string { return p.err.String() + up.err.String() }
	if up.cmd.ProcessState.ExitCode() != exitOK {
		return all(), false
	}
	defer func() { laptop.run("lane", "down", "dev-alice") }()
	if out := laptop.run("lane", "curl", "-s", "http://orders/"); !strings.Contains(out, "the local process") {
		return all() + out, false
	}
	f.eventually("the activity is written, or the relay has nothing to say for two looks", func() bool {
		var keys []string
		g.call("PUT", "/v1/kv/lane/activity/x", "x", nil) // a store without keys answers 404
		g.call("GET", "/v1/kv/lane/activity/?keys", nil, &keys)
		active = slices.Contains(keys, "lane/activity/dev-alice/orders")
		return active || !strings.Contains(relay, "lane/activity/")
	})
	return all(), active
}

// The policies that doctor prints for a relay and for the laptops behind it are enough, and
// each rule of the relay's is missed by its name.
func TestARelaysPrintedPolicyIsTheLeast(t *testing.T) {
	binary := consultest.Needed(t) // the embedded registry has no access control
	t.Parallel()
	g := newGuarded(t, binary)
	_, relay, _ := offline(t, "doctor", "--policy=relay")
	_, relayed, _ := offline(t, "doctor", "--policy=relayed")
	page, err := os.ReadFile("../docs/relay.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rulesIn(relay) {
		if !strings.Contains(string(page), rule) {
			t.Errorf("docs/relay.md does not have %s", rule)
		}
	}
	said, active := g.relayedDay(relay, relayed)
	if !active || strings.Contains(said, "denied") {
		t.Fatalf("active: %v\n%s\nwith\n%s", active, said, relay)
	}
	for _, rule := range rulesIn(relay) {
		if strings.Contains(rule, "lane/switches/") || strings.HasPrefix(rule, "node_prefix") {
			continue // a switch that nobody has thrown is not missed; a node is read for all else
		}
		said, active := g.relayedDay(strings.Replace(relay, rule, "", 1), relayed)
		m := ruleForm.FindStringSubmatch(rule)
		switch {
		case m[2] == "lane/activity/":
			if active {
				t.Errorf("written without %s", rule)
			}
		case !strings.Contains(said, m[1]+":") || !strings.Contains(said, m[2]):
			t.Errorf("without %s no word of it:\n%s", rule, said)
		}
	}
}
