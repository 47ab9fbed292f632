package doctor

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// want is a level and a part of what is said; each case has all of its findings.
type want struct {
	level Level
	says  string
}

func compare(t *testing.T, name string, got []Finding, wants ...want) {
	t.Helper()
	if len(got) != len(wants) {
		t.Errorf("%s: %d findings, want %d: %+v", name, len(got), len(wants), got)
		return
	}
	for i, w := range wants {
		f := got[i]
		text := f.What + " | " + f.Where + " | " + f.Do
		if f.Level != w.level || !strings.Contains(text, w.says) {
			t.Errorf("%s: %s %q, want %s %q", name, f.Level, text, w.level, w.says)
		}
		if f.Check == "" || f.What == "" || f.Level == Wrong && f.Do == "" && f.Check != "header" {
			t.Errorf("%s: says too little: %+v", name, f)
		}
	}
}

func TestRegistryFindings(t *testing.T) {
	compare(t, "away", Registry{Address: "http://c:8500", Source: "default", Err: errors.New("refused")}.Findings(), want{Away, "http://c:8500, the default"})
	compare(t, "not asked", Registry{Err: errors.New("CONSUL_HTTP_TOKEN: bad"), Wrong: true}.Findings(), want{Wrong, "CONSUL_HTTP_TOKEN: bad"})
	compare(t, "no leader", Registry{Address: "http://c:8500"}.Findings(), want{Wrong, "no leader"})
	compare(t, "well", Registry{Leader: "x", Version: "1.14.11", Address: "a", Source: "lane.yaml:3"}.Findings(), want{Well, "Consul 1.14.11 answers"})
	compare(t, "well, unknown version", Registry{Leader: "x"}.Findings(), want{Well, "it answers"})
}

func TestRightsFindings(t *testing.T) {
	compare(t, "off", Rights{Off: true}.Findings(), want{Well, "off"})
	compare(t, "unknown token", Rights{Rejected: errors.New("who?")}.Findings(), want{Wrong, "who?"})
	compare(t, "cannot be asked", Rights{Unknown: errors.New("404")}.Findings(), want{Note, "404"})
	compare(t, "all", Rights{Asked: 7, NoLane: true, Token: "alice"}.Findings(), want{Well, "all 7 rights that lane needs; --lane"})
	compare(t, "missing", Rights{Policies: []string{"weak"}, Policy: "P", Missing: []Right{{"key:read", "it is blind"}, {"node:read", "it sees nothing"}}}.Findings(),
		want{Wrong, "lacks key:read: it is blind | (policies weak) | P prints"}, want{Wrong, "node:read"})
}

func TestAgentsFindings(t *testing.T) {
	compare(t, "one", Agents{Nodes: []string{"a", "a"}}.Findings(), want{Well, "node a"})
	compare(t, "two", Agents{Nodes: []string{"b", "a", "b"}}.Findings(), want{Wrong, "3 connections were answered by 2 agents (a, b)"})
	compare(t, "denied", Agents{Denied: true, Err: errors.New("403")}.Findings(), want{Note, "agent:read"})
	compare(t, "failed", Agents{Err: errors.New("reset")}.Findings(), want{Note, "reset"})
}

func TestClockFindings(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) Clock {
		return Clock{Theirs: now, Before: now.Add(d), After: now.Add(d + time.Second)}
	}
	compare(t, "same", at(0).Findings(), want{Well, "agree"})
	compare(t, "the same second", at(4*time.Second).Findings(), want{Well, "agree"})
	compare(t, "ahead", at(time.Hour).Findings(), want{Note, "1h0m1s ahead of"}) // half a second of the way there
	compare(t, "behind", at(-time.Hour).Findings(), want{Note, "1h0m0s behind"})
	compare(t, "silent", Clock{Missing: true}.Findings(), want{Note, "does not say"})
	compare(t, "failed", Clock{Err: errors.New("reset")}.Findings(), want{Note, "reset"})
}

func TestAddressFindings(t *testing.T) {
	far, near := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("127.0.0.1")
	compare(t, "well", Address{IP: far, Far: true}.Findings(), want{Well, "10.0.0.5"})
	compare(t, "not ours", Address{IP: far, Err: errors.New("cannot assign")}.Findings(), want{Wrong, "--advertise"})
	compare(t, "loopback, registry elsewhere", Address{IP: near, Far: true}.Findings(), want{Wrong, "only this machine"})
	compare(t, "loopback, all here", Address{IP: near}.Findings(), want{Note, "only this machine"})
	compare(t, "unknown", Address{Err: errors.New("no route")}.Findings(), want{Note, "no route"})
	compare(t, "registry away", Address{}.Findings())
}

func TestPortFindings(t *testing.T) {
	proxy := Port{Port: 7474, Addr: "127.0.0.1:7474", Proxy: true, For: "the coloring proxy", Source: "default"}
	with := func(p Port, f func(*Port)) []Finding { f(&p); return p.Findings() }
	compare(t, "free", proxy.Findings(), want{Well, "free"})
	compare(t, "ours", with(proxy, func(p *Port) { p.Open, p.Ours = true, "dev-alice" }), want{Well, "lane dev-alice"})
	compare(t, "another's", with(proxy, func(p *Port) { p.Open, p.Holder = true, "python3 (process 7)" }), want{Note, "python3 (process 7) listens here: the coloring proxy takes the next"})
	compare(t, "another's, fixed", with(proxy, func(p *Port) { p.Open, p.Fixed = true, true }), want{Wrong, "another program"})
	app := Port{Port: 5000, Addr: "127.0.0.1:5000", For: "orders"}
	compare(t, "closed", app.Findings(), want{Note, "nothing listens here yet for orders"})
	compare(t, "open", with(app, func(p *Port) { p.Open, p.Holder = true, "java (process 8)" }), want{Well, "java (process 8) listens here for orders"})
	compare(t, "AirPlay", with(app, func(p *Port) { p.Open, p.GOOS = true, "darwin" }), want{Wrong, "AirPlay"})
	compare(t, "another port of a Mac", with(app, func(p *Port) { p.Open, p.GOOS, p.Port = true, "darwin", 8080 }), want{Well, "orders"})
	compare(t, "closed on a Mac", with(app, func(p *Port) { p.GOOS = "darwin" }), want{Note, "nothing listens"})
}

func TestSessionsAndLeftovers(t *testing.T) {
	compare(t, "none", Sessions{}.Findings(), want{Well, "no session"})
	compare(t, "all kinds", Sessions{Running: []string{"dev-alice orders"}, Dead: []string{"/r/1.sock"}, Silent: []string{"42"}}.Findings(),
		want{Wrong, "kill -CONT 42"}, want{Note, "/r/1.sock"}, want{Well, "dev-alice orders"})
	compare(t, "blind", Sessions{Err: errors.New("denied")}.Findings(), want{Wrong, "denied"})
	compare(t, "nothing left", Leftovers{}.Findings(), want{Well, "no dead session"})
	compare(t, "left", Leftovers{Own: []string{"a"}, Others: []string{"b", "c"}}.Findings(), want{Wrong, "| a |"}, want{Note, "2 left"})
	compare(t, "unknown", Leftovers{Err: errors.New("403")}.Findings(), want{Note, "403"})
}

func TestProxyFindings(t *testing.T) {
	for _, c := range []struct {
		name  string
		env   map[string]string
		fold  bool
		wants []want
	}{
		{"none", nil, false, []want{{Well, "no proxy"}}},
		{"a company's", map[string]string{"HTTP_PROXY": "http://alice:secret@Proxy.corp:3128"}, false, []want{{Note, "proxy.corp:3128"}}},
		{"twins", map[string]string{"HTTP_PROXY": "http://p:1", "http_proxy": "http://p:1"}, false, []want{{Note, "p:1"}}},
		{"one in two spellings", map[string]string{"HTTP_PROXY": "http://p:1", "http_proxy": "http://q:1"}, true, []want{{Note, "p:1"}}},
		{"different", map[string]string{"HTTP_PROXY": "http://p:1", "http_proxy": "http://q:1"}, false, []want{{Note, "different"}, {Note, "p:1"}, {Note, "q:1"}}},
		{"no scheme", map[string]string{"https_proxy": "p:1"}, false, []want{{Note, "p:1"}, {Note, "no scheme"}}},
		{"no URL", map[string]string{"HTTP_PROXY": "http://%zz"}, false, []want{{Wrong, "no URL"}}},
		{"ours, and it lives", map[string]string{"HTTP_PROXY": "http://localhost:7474", "LANE_PROXY": "http://127.0.0.1:7474"}, false, []want{{Well, "lane dev-alice"}}},
		{"ours, and it is gone", map[string]string{"HTTP_PROXY": "http://127.0.0.1:7475", "LANE_PROXY": "http://127.0.0.1:7475"}, false, []want{{Wrong, "has ended"}}},
		{"all", map[string]string{"all_proxy": "socks5://p:1"}, false, []want{{Note, "go past a lane"}, {Well, "no proxy"}}},
		{"all excluded", map[string]string{"no_proxy": "*"}, false, []want{{Note, "* sends"}}},
	} {
		p := Proxies{Get: func(k string) string { return c.env[k] }, Fold: c.fold, Sessions: map[string]string{At("http://127.0.0.1:7474"): "dev-alice"}}
		got := p.Findings()
		compare(t, c.name, got, c.wants...)
		for _, f := range got {
			if strings.Contains(f.What+f.Where+f.Do, "secret") {
				t.Errorf("%s: a password is shown: %+v", c.name, f)
			}
		}
	}
	p := Proxies{Get: func(string) string { return "" }, Bypassed: []string{"orders"}}
	compare(t, "bypassed", p.Findings(), want{Wrong, "programs call orders past the lane"})
}

func TestConsumerFindings(t *testing.T) {
	dns := want{Note, "DNS"}
	for _, c := range []struct {
		name  string
		c     Consumed
		wants []want
	}{
		{"nobody known", Consumed{Tags: []string{"v1"}}, []want{dns}},
		{"auto", Consumed{Auto: true}, []want{{Note, "moves to a name of its own"}}},
		{"isolated", Consumed{Isolated: true, Tags: []string{"traefik.enable=true"}}, []want{{Well, "a name of its own"}}},
		{"traefik", Consumed{Tags: []string{"Traefik.enable=true"}}, []want{{Note, "tag Traefik.enable=true"}, dns}},
		{"fabio", Consumed{Tags: []string{"urlprefix-/orders"}}, []want{{Well, "left alone"}, dns}},
		{"spring by tag", Consumed{Tags: []string{"secure=false"}}, []want{{Note, "queryPassing"}, dns}},
		{"spring by metadata", Consumed{Meta: map[string]string{"secure": "false"}}, []want{{Note, "metadata secure=false"}, dns}},
		{"prometheus", Consumed{Tags: []string{"prometheus"}}, []want{{Note, "scrapes"}, dns}},
		{"mesh", Consumed{Services: []string{"orders", "orders-sidecar-proxy"}}, []want{{Note, "never reach"}, dns}},
		{"another's mesh", Consumed{Services: []string{"orders", "stock-sidecar-proxy"}}, []want{dns}},
		{"unknown", Consumed{Err: errors.New("403")}, []want{{Note, "403"}}},
	} {
		c.c.Service = "orders"
		compare(t, c.name, c.c.Findings(), c.wants...)
	}
}

func TestHeaderFindings(t *testing.T) {
	sent := map[string]string{"X-Lane-Tag": "doctor-1", "Baggage": "lane=doctor-1"}
	compare(t, "arrives", Way{Sent: sent, Got: sent}.Findings(), want{Well, "arrives"})
	compare(t, "stripped", Way{Sent: sent, Got: map[string]string{"Baggage": "lane=doctor-1"}}.Findings(), want{Wrong, "X-Lane-Tag is taken off |"})
	compare(t, "rewritten", Way{Sent: sent, Got: map[string]string{"X-Lane-Tag": "other"}}.Findings(), want{Wrong, `Baggage is taken off; X-Lane-Tag is rewritten to "other"`})
	compare(t, "no way", Way{Err: errors.New("502")}.Findings(), want{Note, "502"})

	p := Probe{URL: "http://g/", Tag: "doctor-1", Status: 200}
	with := func(f func(*Probe)) []Finding { q := p; f(&q); return q.Findings() }
	compare(t, "a router that saw it", with(func(p *Probe) { p.Decision = "FALLBACK_BASELINE; lane=doctor-1; reason=lane_absent" }), want{Well, "arrives"})
	compare(t, "the tag last", with(func(p *Probe) { p.Decision = "LANE_MATCH; lane=doctor-1" }), want{Well, "arrives"})
	compare(t, "a router that saw another", with(func(p *Probe) { p.Decision = "LANE_MATCH; lane=doctor-12" }), want{Wrong, "takes the tag off"})
	compare(t, "a router that saw none", with(func(p *Probe) { p.Decision = "BASELINE; instance=orders-1" }), want{Wrong, "BASELINE"})
	compare(t, "an echo", with(func(p *Probe) { p.Echoed = true }), want{Well, "holds it"})
	compare(t, "who knows", with(func(*Probe) {}), want{Note, "(200) does not tell"})
	compare(t, "nobody", with(func(p *Probe) { p.Err = errors.New("refused") }), want{Wrong, "refused"})
}

func TestSettingsFindings(t *testing.T) {
	compare(t, "defaults", Settings{}.Findings(), want{Well, "defaults"})
	compare(t, "given", Settings{Given: []Setting{{"drain", "5s", "LANE_DRAIN"}}}.Findings(), want{Well, "drain is 5s | LANE_DRAIN"})
	compare(t, "wrong", Settings{Given: []Setting{{"a", "b", "c"}}, Wrong: []Setting{{"drain", "no time", "lane.yaml:3"}, {"", "no YAML", "lane.yaml"}}}.Findings(),
		want{Wrong, "drain: no time | lane.yaml:3"}, want{Wrong, "no YAML"})
	compare(t, "unreadable", Settings{Err: errors.New("denied")}.Findings(), want{Wrong, "denied"})
}

// All checks run at once, each until its deadline, and are told in their order.
func TestRunIsBounded(t *testing.T) {
	met := make(chan struct{})
	hang := func(ctx context.Context) []Finding { <-ctx.Done(); return Unknown("a", context.Cause(ctx)) }
	got := Run(t.Context(), 50*time.Millisecond, hang,
		func(context.Context) []Finding { <-met; return []Finding{{Check: "b", Level: Well}} },
		func(context.Context) []Finding { close(met); return nil },
		func(context.Context) []Finding {
			return []Finding{{Check: "c", Level: Wrong}, {Check: "d", Level: Note}}
		})
	var names []string
	for _, f := range got {
		names = append(names, f.Check)
	}
	if !reflect.DeepEqual(names, []string{"a", "b", "c", "d"}) {
		t.Errorf("%v", names)
	}
	if Worst(got) != Wrong || Worst(nil) != Well || Worst([]Finding{{Level: Wrong}, {Level: Away}}) != Away || Count(got, Note) != 2 {
		t.Errorf("%v", got)
	}
}
