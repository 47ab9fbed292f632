//go:build unix

package faults

import (
	"fmt"
	"net/http"
	"testing"
	"time"
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
