//go:build unix

package cmd

import (
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
)

// aRelay is a relay and a laptop at a real Consul that the test can break.
type aRelay struct {
	*field
	agent   *consultest.Agent
	relay   *relayProcess
	laptop  *field
	session *process
	at      string
	c       *caller
}

// newARelay starts them; with front, the relay asks Consul through it.
func newARelay(t *testing.T, agent *consultest.Agent, front string) *aRelay {
	t.Helper()
	a := &aRelay{field: newFieldOn(t, agent.Addr()), agent: agent}
	a.baseline()
	by := a.field
	if front != "" {
		by = a.machine("CONSUL_HTTP_ADDR=" + front)
		by.env = append(by.env, "LANE_STATE_DIR="+a.getenv("LANE_STATE_DIR")) // where its keys are
	}
	a.relay = by.relay()
	a.laptop = a.field.laptop(a.relay, a.relay.addr, a.token("alice", "dev-alice"))
	a.session = a.laptop.lane("dev-alice", "-s", "orders="+a.app("laptop").port(), "--register", "shared")
	a.at = a.stands("orders", "dev-alice")
	a.c = a.caller()
	return a
}

func (a *aRelay) baseline() {
	a.t.Helper()
	a.instance("orders", "orders-base", a.app("baseline").addr, nil)
}

// serves checks that the port leads to the laptop, and to nobody else.
func (a *aRelay) serves(when string) {
	a.t.Helper()
	if r, err := a.c.get(a.at, "x-lane-tag", "dev-alice"); err != nil || r.by("laptop") != nil {
		a.t.Errorf("%s: %v %v", when, r, err)
	}
	if r, err := a.c.get(a.at); err != nil || r.by("baseline") != nil {
		a.t.Errorf("%s, untagged: %v %v", when, r, err)
	}
}

// whole waits until everything is as it was, and the tunnel has not been lost meanwhile.
func (a *aRelay) whole(when string) {
	a.t.Helper()
	if at := a.stands("orders", "dev-alice"); at != a.at {
		a.t.Errorf("%s: it stands at %s, and stood at %s", when, at, a.at)
	}
	a.eventually("the claim is alice's", func() bool {
		cl, held := a.claimOf("orders", "dev-alice")
		return held && cl.Owner == "alice" && cl.Relay != ""
	})
	a.eventually("the laptop says that it is up", func() bool {
		st := a.laptop.status()
		return st.Registry.State == "fresh" && len(st.Services) == 1 && st.Services[0].State == control.StateUp
	})
	a.serves(when)
	if lost := a.relay.lines("lost"); len(lost) > 0 {
		a.t.Errorf("%s: the tunnel was lost: %v", when, lost)
	}
	if n := len(a.relay.lines("gone")); n > 0 {
		a.t.Errorf("%s: the claim was given up: %v", when, a.relay.lines("gone"))
	}
}

// Consul's agent is killed and comes back, with what it held and without: the relay goes on
// serving meanwhile, and registers and claims anew what Consul has forgotten.
func TestARelayWhoseConsulAgentRestarts(t *testing.T) {
	t.Parallel()
	bin := consultest.Needed(t) // the embedded registry is no process that could be killed
	agent := consultest.NewAgent(t, bin, consultest.AgentOptions{Name: "dev", Servers: 1})
	agent.Await(t)
	a := newARelay(t, agent, "")
	load := a.load(2, func(int) error {
		r, err := a.c.get(a.at, "x-lane-tag", "dev-alice")
		if err != nil {
			return err
		}
		return r.by("laptop")
	})
	for _, keep := range []bool{true, false} {
		load.more(50)
		agent.Kill()
		load.more(100)
		a.serves("without an agent")
		agent.Restart(t, keep)
		agent.Await(t)
		if !keep {
			a.baseline() // as what had registered it does
		}
		a.whole("with its data " + strconv.FormatBool(keep))
	}
	t.Logf("%d requests", load.end())
	a.session.end()
	a.eventually("nothing is left", func() bool { return len(a.placed("orders", "dev-alice")) == 0 })
	if cl, held := a.claimOf("orders", "dev-alice"); held {
		t.Errorf("left: %+v", cl)
	}
}

// Consul has lost its leader: the relay goes on, whoever wants to claim is told why he
// cannot, and all is as before when there is a leader again.
func TestARelayWhileConsulHasNoLeader(t *testing.T) {
	t.Parallel()
	bin := consultest.Needed(t) // the embedded registry always leads
	one := consultest.NewAgent(t, bin, consultest.AgentOptions{Name: "server-1", Servers: 2})
	two := consultest.NewAgent(t, bin, consultest.AgentOptions{Name: "server-2", Servers: 2, Join: []*consultest.Agent{one}})
	one.Await(t)
	two.Await(t)
	a := newARelay(t, one, "")
	two.Kill()
	a.eventually("the laptop shows it", func() bool { return a.laptop.status().Registry.State != "fresh" })
	a.serves("without a leader")
	if s := a.laptop.relayState(); s != control.RelayOK {
		t.Errorf("the tunnel is %s", s)
	}
	bob := a.field.laptop(a.relay, a.relay.addr, a.token("bob", "dev-bob"), "LANE_OWNER=bob")
	ctx, cancel := storyContext()
	defer cancel()
	c := exec.CommandContext(ctx, "lane", "up", "dev-bob", "-s", "orders="+a.app("bob").port())
	c.Dir, c.Env = bob.dir, bob.env
	out, _ := c.CombinedOutput() // the exit code says it
	// Who notices first says it: Consul that it has no leader or cannot reach it, or the
	// laptop that the relay, which waits for Consul, does not answer.
	why := regexp.MustCompile(`(?i)lane: the (registry at \S+ has no leader|relay at \S+ (refuses it: claim orders: the registry answered 500|cannot be reached: the relay has not answered))`)
	if code := c.ProcessState.ExitCode(); code != exitUnreachable && code != exitFailed || !why.Match(out) {
		t.Errorf("a session came up without a leader, or does not say why not: %d\n%s", code, out)
	}

	two.Restart(t, true)
	one.Await(t)
	two.Await(t)
	a.whole("with a leader again")
	bob.lane("dev-bob", "-s", "orders="+a.app("bob").port(), "--register", "shared")
	a.stands("orders", "dev-bob")
}

// The indexes of the relay's Consul go back with every answer, as behind a restored one:
// the relay hears of what changes all the same.
func TestARelayWhoseConsulIndexesGoBack(t *testing.T) {
	t.Parallel()
	bin := consultest.Needed(t) // it is Consul's blocking queries that are at stake
	agent := consultest.NewAgent(t, bin, consultest.AgentOptions{Name: "dev", Servers: 1})
	agent.Await(t)
	var index atomic.Uint64
	index.Store(1 << 40)
	tr := &http.Transport{Proxy: nil}
	t.Cleanup(tr.CloseIdleConnections)
	f := newFieldOn(t, agent.Addr())
	var backwards atomic.Bool
	front := f.serve(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", agent.Addr(), ""
		if q := out.URL.Query(); backwards.Load() {
			q.Del("index") // it would wait for ever
			out.URL.RawQuery = q.Encode()
		}
		res, err := tr.RoundTrip(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer func() { _ = res.Body.Close() }()
		for k, v := range res.Header {
			w.Header()[k] = v
		}
		if backwards.Load() && res.Header.Get("X-Consul-Index") != "" {
			w.Header().Set("X-Consul-Index", strconv.FormatUint(index.Add(^uint64(0)), 10))
		}
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body) // a broken answer is one that the relay cannot read
	})
	a := newARelay(t, agent, front)
	backwards.Store(true)
	// A query that waits is answered by the next change, and from then on they go back.
	a.instance("orders", "orders-second", a.app("baseline").addr, nil)
	a.serves("while they go back")
	a.eventually("its watches have seen it", func() bool { return index.Load() < 1<<40-20 })
	a.whole("while they go back")

	a.field.run("lane", "relay", "token", "revoke", "--user", "alice")
	a.eventually("what came in by the token is gone", func() bool {
		_, held := a.claimOf("orders", "dev-alice")
		return !held && len(a.placed("orders", "dev-alice")) == 0
	})
	a.session.ends = true
	a.session.wait()
	if !strings.Contains(a.session.err.String(), "the token was revoked") {
		t.Errorf("%s", &a.session.err)
	}
}
