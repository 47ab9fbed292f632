//go:build unix

package faults

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"lane/pkg/control"
)

// leastPolicy is what lane itself says that somebody needs.
func (w *world) leastPolicy(whom string, args ...string) string {
	w.t.Helper()
	code, out, errOut := run(w.t, w.desk("operator"), append([]string{"doctor", "--policy=" + whom}, args...)...)
	if code != 0 {
		w.t.Fatalf("lane doctor --policy %s: %d\n%s", whom, code, errOut)
	}
	return out
}

// tokenOf makes a token with one policy, whose name is the token's too.
func (w *world) tokenOf(name, rules string) (secret string) {
	w.t.Helper()
	if w.tokens[name] != "" { // another one with the same policy
		return w.newToken(name)
	}
	w.setPolicy(name, rules)
	return w.newToken(name)
}

func (w *world) newToken(name string) (secret string) {
	w.t.Helper()
	var token struct{ AccessorID, SecretID string }
	w.must(w.call(w.servers[0], http.MethodPut, "/v1/acl/token", map[string]any{
		"Description": name, "Policies": []map[string]string{{"Name": name}}}, &token))
	w.tokens[name] = token.AccessorID
	return token.SecretID
}

// setPolicy makes a policy, or writes it anew.
func (w *world) setPolicy(name, rules string) {
	w.t.Helper()
	body, path := map[string]string{"Name": name, "Rules": rules}, "/v1/acl/policy"
	if id := w.policies[name]; id != "" {
		body["ID"], path = id, path+"/"+id
	}
	var made struct{ ID string }
	w.must(w.call(w.servers[0], http.MethodPut, path, body, &made))
	w.policies[name] = made.ID
}

// filtered reports whether the registry leaves something out of what it answers to a
// token.
func (w *world) filtered(token string) bool {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.agent.Addr()+"/v1/health/service/orders", nil)
	w.must(err)
	req.Header.Set("X-Consul-Token", token)
	res, err := (&http.Transport{Proxy: nil, DisableKeepAlives: true}).RoundTrip(req)
	w.must(err)
	w.must(res.Body.Close())
	return res.StatusCode == http.StatusOK && res.Header.Get("X-Consul-Results-Filtered-By-ACLs") == "true"
}

// revoke deletes a token.
func (w *world) revoke(name string) {
	w.t.Helper()
	w.must(w.call(w.servers[0], http.MethodDelete, "/v1/acl/token/"+w.tokens[name], nil, nil))
}

// A token that is revoked while a session is up: what is registered with it can be
// removed by nobody for a while. The session says what is left, and ends.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{token: management})
	w.remember()
	w.openGateway()
	w.up()
	stop := traffic(t, w.tally, w.streams()[:3])
	pause(t, time.Second)
	w.revoke(alice)
	began := time.Now()
	code := w.session.wait()
	took := time.Since(began)
	said := w.session.err.String()
	if id := w.status.Services[0].ID; code != 1 || !containsAll(said, id, "cannot remove it by itself", "`lane up`") {
		t.Errorf("the session ended with %d, and says nothing of %s and how to remove it:\n%s", code, id, said)
	}
	// By its beats, not only when it renews the session behind its claims.
	if took > 40*time.Second {
		t.Errorf("it took %s to end", took)
	}
	note := fmt.Sprintf("its session ends with 1 after %.0f s, and says what is left: with another token, up and down again removed it", took.Seconds())
	stop()
	// What it says is what works.
	pause(t, form(0, 2*time.Minute))
	w.vars["CONSUL_HTTP_TOKEN"] = ""
	w.up()
	again := w.wholeAgain()
	if code := w.end(); code != 130 {
		t.Errorf("with another token it ended with %d", code)
	}
	w.asBefore(limit, "after an up and a down with another token")
	if n := w.local.strangers(); len(n) > 0 {
		t.Errorf("misrouted to the laptop: %v", n)
	}
	w.tally.mu.Lock()
	defer w.tally.mu.Unlock()
	failed, which := count(w.tally.failed)
	fell, _ := count(w.tally.fellBack)
	wrong, how := count(w.tally.misrouted)
	if wrong > 0 {
		t.Errorf("misrouted: %s", how)
	}
	t.Log(which)
	report.add(t, row{order: 100, fault: "token revoked while the session is up", sent: w.tally.sent, failed: failed, misrouted: wrong, fellBack: fell, again: again,
		note: note + "; what failed was for its lane after its end"})
}

// Everything that the main path needs is in the policies that lane itself prints: for a
// gateway and a sidecar that are announced, and for a session that has to move to its
// isolated name.
func TestLeastPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{token: management})
	w.remember()
	w.openGatewayAt("127.0.0.1:0")
	vars := w.desk("sidecar")
	vars["CONSUL_HTTP_TOKEN"] = w.tokenOf("sidecar", w.leastPolicy("sidecar", "-s", "orders"))
	sidecar := start(t, vars, "sidecar", "--service", "orders", "--app", w.orders.addr(), "--listen", "127.0.0.1:0", "--outbound", "127.0.0.1:0", "--register")
	for _, name := range []string{"lane-gateway", "lane-sidecar", "orders"} {
		await(t, name+" is in the catalog", func() bool {
			var all []struct{ Checks []struct{ Status string } }
			err := w.call(w.agent, http.MethodGet, "/v1/health/service/"+name+"?passing", nil, &all)
			return err == nil && len(all) > 0 && (name != "orders" || len(all) == 2) // the baseline's own, and the sidecar's
		})
	}
	w.up()
	w.wholeAgain()
	c := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	all := func(when string) {
		t.Helper()
		for _, s := range w.streams() {
			if s.via == "" {
				if o := s.send(t.Context(), c); o != (outcome{}) {
					t.Errorf("%s: %s: %+v", when, s.name, o)
				}
			}
		}
		if code, out, errOut := run(t, w.vars, "curl", "-s", "http://orders/a"); code != 0 || out != "laptop" {
			t.Errorf("%s: lane curl: %d %q\n%s", when, code, out, errOut)
		}
		for _, args := range [][]string{{"status", "--json"}, {"ls"}, {"show", alice}, {"explain", "http://orders/a"}, {"verify", "http://orders/a"}} {
			if code, _, errOut := run(t, w.vars, args...); code != 0 {
				t.Errorf("%s: lane %s: %d\n%s", when, strings.Join(args, " "), code, errOut)
			}
		}
	}
	all("under its own name")

	// Somebody on another machine, who looks at no lanes, finds the instance.
	stranger := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: elsewhere(t)}}).DialContext}}
	if o := (&stream{url: "http://" + w.status.Services[0].Guard + "/a", want: "baseline"}).send(t.Context(), stranger); o != (outcome{}) {
		t.Fatalf("the stranger: %+v", o)
	}
	await(t, "the instance is isolated", func() bool {
		st, err := w.ask()
		w.status = st
		return err == nil && st.Services[0].Mode == "isolated" && st.Services[0].State == control.StateUp
	})
	w.wholeAgain()
	all("isolated")
	if code, out, errOut := run(t, w.vars, "policy"); code != 0 || !strings.Contains(out, "isolated") {
		t.Errorf("what was learned is not remembered: %d %s\n%s", code, out, errOut)
	}
	w.must(w.call(w.agent, http.MethodDelete, "/v1/kv/lane/policy/orders", nil, nil))
	if code := w.end(); code != 130 {
		t.Errorf("the session ended with %d", code)
	}
	sidecar.signal(syscall.SIGTERM)
	sidecar.wait()
	for _, p := range []*program{w.session, w.gateway, sidecar} {
		if said := p.err.String(); strings.Contains(said, "denied") {
			t.Errorf("lane %s was denied something:\n%s", p.args[0], said)
		}
	}
	w.asBefore(limit, "after the end")
	report.line(5, "**Least policy**: with access control on and everything denied by default, and with exactly the policies that `lane doctor --policy` prints: "+
		"a gateway and a sidecar that are announced, and a session with all that its developer asks, before and after it moved to its isolated name. Nothing was denied.")
}

// elsewhere is an address of this machine that a guard on a loopback one takes for
// another machine's.
func elsewhere(t *testing.T) net.IP {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP
		}
	}
	t.Fatal("this machine has no address but loopback ones: nobody can call from elsewhere")
	return nil
}
