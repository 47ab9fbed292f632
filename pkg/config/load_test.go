package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write puts files into a new directory and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

// loadText loads one lane.yaml.
func loadText(t *testing.T, text string, change ...func(*Options)) (*Settings, error) {
	t.Helper()
	o := Options{Dir: write(t, map[string]string{FileName: text}), User: "alice", Host: "laptop.corp.example", Home: "/home/alice"}
	for _, c := range change {
		c(&o)
	}
	return Load(o)
}

func TestDefaults(t *testing.T) {
	s, err := Load(Options{Dir: t.TempDir(), User: `CORP\alice`, Host: "laptop.local"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range s.Entries() {
		if e.Value != "" {
			got[e.Key] = e.Value
		}
		if e.Source != "default" {
			t.Errorf("%s comes from %q", e.Key, e.Source)
		}
	}
	want := map[string]string{
		"preset": "lane", "register": "auto", "consul.address": "127.0.0.1:8500", "owner": "alice@laptop", "guard": "bounce",
		"drain": "30s", "proxy": "127.0.0.1:7474", "strict": "false", "no_match": "fallback",
		"max_stale": "5m0s", "via": "direct", "degrade_ratio": "0", "unhealthy_lane": "error", "zone_mode": "affinity", "warmup": "0s", "min_local": "1", "max_cross": "0.3", "on_empty": "cross", "warmup_curve": "linear",
		"cors_tag": "false", "no_store": "off",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if s.Files() != nil || s.Drain != 30*time.Second || len(s.Services) != 0 || s.Lane != "" {
		t.Errorf("%+v", s)
	}
}

const full = `# everything
services:
  order-service: { port: 8080, health: /healthz }
  billing: 9090
header: X-Team-Lane
accept: [mse, x-old-lane, mse]
register: isolated
hosts: { Orders.test.example: order-service }
colored: [ "*.partner.test", api.example.com ]
mitm: [ order-service, "*.Partner.test", "*.partner.test" ]
mitm_ca_file: certs/env.pem
consul:
  address: https://consul.test:8501/
  datacenter: dc1
  namespace: team
  ca_file: certs/ca.pem
  token_file: ~/token
env: test
tenant: t1
zone: "a"
version: 1.10
advertise: 10.0.0.7
owner: Alice
guard: reject
probes: [/healthz, /ready]
drain: 5s
proxy: "[::1]:7000"
strict: true
no_match: fail
max_stale: 90s
cors_tag: true
no_store: lane
zone_mode: required
warmup: 2m
warmup_curve: quadratic
sticky: { header: X-User-Id }
relay: wss://relay.test.example#sha256:00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff
relay_ca_file: certs/relay.pem
relay_token_file: ~/relay-token
relay_cert_file: certs/me.pem
relay_key_file: certs/me-key.pem
via: relay
`

func TestFullFile(t *testing.T) {
	s, err := loadText(t, full)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(s.Files()[0])
	want := &Settings{
		Services: []Service{{Name: "billing", Port: 9090}, {Name: "order-service", Port: 8080, Health: "/healthz"}},
		Header:   "x-team-lane", Accept: []string{"mse", "x-old-lane"}, Register: Isolated,
		Hosts: map[string]string{"orders.test.example": "order-service"}, Colored: []string{"*.partner.test", "api.example.com"},
		Mitm: []string{"order-service", "*.partner.test"}, MitmCAFile: filepath.Join(dir, "certs/env.pem"),
		Consul: Consul{Address: "https://consul.test:8501", Datacenter: "dc1", Namespace: "team",
			CAFile: filepath.Join(dir, "certs/ca.pem"), TokenFile: "/home/alice/token"},
		Env: "test", Tenant: "t1", Zone: "a", Version: "1.10", Advertise: "10.0.0.7", Owner: "Alice", Guard: Reject,
		Probes: []string{"/healthz", "/ready"}, Drain: 5 * time.Second, Proxy: "[::1]:7000", Strict: true, NoMatch: Fail,
		UnhealthyLane: "error", ZoneMode: "required", MinLocal: 1, MaxCross: 0.3, OnEmpty: "cross", Warmup: 2 * time.Minute, WarmupCurve: "quadratic", Sticky: "header=x-user-id",
		CorsTag: true, NoStore: "lane", MaxStale: 90 * time.Second, Relay: "wss://relay.test.example", RelayCAFile: filepath.Join(dir, "certs/relay.pem"),
		RelayFingerprint: "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
		RelayCertFile:    filepath.Join(dir, "certs/me.pem"), RelayKeyFile: filepath.Join(dir, "certs/me-key.pem"),
		RelayTokenFile: "/home/alice/relay-token", Via: ViaRelay,
	}
	if d := cmp.Diff(want, s, cmp.AllowUnexported(), cmp.FilterPath(func(p cmp.Path) bool {
		f := p.Last().String()
		return f == ".entries" || f == ".files" || f == ".warnings"
	}, cmp.Ignore())); d != "" {
		t.Error(d)
	}
	for key, source := range map[string]string{
		"services": "lane.yaml:2", "header": "lane.yaml:5", "preset": "header is set", "consul.address": "lane.yaml:13",
		"strict": "lane.yaml:28", "drain": "lane.yaml:26", "unknown": "",
	} {
		if got := s.Source(key); got != source {
			t.Errorf("%s comes from %q, want %q", key, got, source)
		}
	}
	for _, k := range Keys() {
		if s.Source(k) == "" {
			t.Errorf("%s has no source", k)
		}
	}
}

func TestEachProblemNamesItsLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"registr: shared", "lane.yaml:1: registr: unknown key; did you mean register?"},
		{"\nconsul:\n  adress: a:1", "lane.yaml:3: consul.adress: unknown key; did you mean consul.address?"},
		{"rellay: wss://x", "did you mean relay?"},
		{"relay: ws://x", "the scheme is not wss"},
		{"relay: wss://x?token=abc", "is in every log"},
		{"relay: wss://u:p@x", "is in every log"},
		{"relay: wss://x#sha256:00", "is no fingerprint"},
		{"relay_fingerprint: abc", "is no fingerprint"},
		{"relay_cert_file: a.pem", "go together"},
		{"via: relay", "there is no relay"},
		{"via: bus", "direct, relay"},
		{"consul.address: a:1", "lane.yaml:1: consul.address: unknown key"},
		{"consul:\n  token: s3cr3t", "lane.yaml:2: consul.token: not here: a token does not belong into a file that is checked in; use consul.token_file or CONSUL_HTTP_TOKEN"},
		{"lane: dev-alice", "LANE_TAG"},
		{"register: both", `lane.yaml:1: register: "both" is not one of auto, shared, isolated`},
		{"register: [shared]", "lane.yaml:1: register: has to be one value, not a list"},
		{"register:", "lane.yaml:1: register: has no value"},
		{"strict: yes please", "lane.yaml:1: strict: has to be true or false"},
		{"strict: 1", "lane.yaml:1: strict: has to be true or false"},
		{"mitm: [ '*' ]", "lane.yaml:1: mitm: * would open the TLS of every host"},
		{"mitm: [ '*.com' ]", "name a domain"},
		{"mitm: [ 10.0.0.1 ]", "a certificate is made for a name"},
		{"mitm: [ a:443 ]", "a host without its port"},
		{"mitm: a b", "mitm: has to be a list"},
		{"mitm_ca_file: [ a ]", "has to be one value"},
		{"drain: 30", `lane.yaml:1: drain: "30" has no unit; say 30s`},
		{"drain: soon", "no duration"},
		{"drain: -1s", "between"},
		{"drain: 2h", "between"},
		{"max_stale: 300", `max_stale: "300" has no unit; say 300s`},
		{"max_stale: 25h", "between"},
		{"accept: mse", "lane.yaml:1: accept: has to be a list"},
		{"accept: [[mse]]", "lane.yaml:1: accept: has to be one value, not a list"},
		{"accept: [msee]", "did you mean mse?"},
		{"accept: [whatever]", "neither a preset"},
		{"preset: brigde", "did you mean bridge?"},
		{"preset: zzzzzzzzzzz", "there are "},
		{"header: authorization", "it holds credentials"},
		{"header: baggage", "say preset: baggage"},
		{"header: 'a b'", "no header name"},
		{"header: x-a\npreset: mse", "lane.yaml:2: preset: header is given too (lane.yaml:1)"},
		{"hosts: [a]", "lane.yaml:1: hosts: has to be a mapping"},
		{"hosts: { 'a:80': b }", "a host without its port"},
		{"hosts: { a: 'b c' }", "letters, digits"},
		{"hosts: { A: b, a: c }", "twice"},
		{"colored: ['*']", "every host outside"},
		{"colored: ['*.com']", "name a domain"},
		{"colored: ['a..b']", "no host name"},
		{"services: [a]", "lane.yaml:1: services: has to be a mapping"},
		{"services: { a: {} }", "lane.yaml:1: services.a: has no port"},
		{"services: { a: { port: 0 } }", "lane.yaml:1: services.a.port: port 0 is not between"},
		{"services: { a: { port: http } }", "no port number"},
		{"services: { a: { prot: 1 } }", "services.a.prot: unknown key; did you mean port?"},
		{"services: { a: { port: 1, x: 1 } }", "services.a.x: unknown key; there are port, health"},
		{"services: { a: { port: 1, health: up } }", "no path"},
		{"services: { 'a/b': 1 }", "letters, digits"},
		{"services: { a: 70000 }", "65535"},
		{"consul: x", "lane.yaml:1: consul: has to be a mapping"},
		{"consul: { address: localhost }", "say localhost:8500"},
		{"consul: { address: foo bar }", `"foo bar" is no address such as`},
		{"consul: { address: 'hunter2@foo bar' }", `"***@foo bar" is no address`},
		{"consul: { address: 'ftp://a:1' }", "none of http, https, unix"},
		{"consul: { address: 'http://u:hunter2@a:1' }", "no user or password"},
		{"consul: { address: 'http://a:1/x' }", "a host and a port only"},
		{"consul: { datacenter: 'a b' }", "letters, digits"},
		{"advertise: 0.0.0.0", "cannot be dialled"},
		{"advertise: laptop", "no IP address such as 10.2.0.77"},
		{"advertise: 10.0.0.1:80", "without a port"},
		{"proxy: 0.0.0.0:7474", "not on this machine's loopback; say 127.0.0.1:7474"},
		{"proxy: '7474'", "no host:port"},
		{"proxy: 127.0.0.1:70000", "65535"},
		{"owner: ''", "such as alice"},
		{"owner: \"a\\tb\"", "cannot be printed"},
		{"guard: drop", "bounce, reject"},
		{"probes: [healthz]", "no path"},
		{"no_match: maybe", "fallback, fail, proportional"},
		{"no_match: proportional", "lane.yaml:1: no_match: no_match: proportional and degrade_ratio, its share, go together"},
		{"degrade_ratio: 0.1", "lane.yaml:1: degrade_ratio: no_match: proportional and degrade_ratio, its share, go together"},
		{"no_match: proportional\ndegrade_ratio: 10%", `"10%" is no share from 0 to 1`},
		{"no_match: proportional\ndegrade_ratio: NaN", "is no share"},
		{"no_match: proportional\ndegrade_ratio: 1.01", "is no share"},
		{"strict: true\nno_match: proportional\ndegrade_ratio: 0.1", "lane.yaml:2: no_match: strict (lane.yaml:1) means fail"},
		{"env: a b", `lane.yaml:1: env: "a b": ' ' is in it; it has to be one word of letters, digits`},
		{"tenant: a,b", `lane.yaml:1: tenant: "a,b": ',' is in it`},
		{"zone: [eu-1]", "lane.yaml:1: zone: has to be one value"},
		{"version: v1 beta", `lane.yaml:1: version: "v1 beta"`},
		{"unhealthy_lane: hide", "error, fallback"},
		{"strict: true\nunhealthy_lane: fallback", "lane.yaml:2: unhealthy_lane: strict (lane.yaml:1) means error"},
		{"zone_mode: near", "affinity, off, required"},
		{"zone_mode: affinity\nmin_local: 0", `lane.yaml:2: min_local: "0" is no number of instances from 1 to 1000`},
		{"min_local: 1.5", "is no number of instances"},
		{"on_empty: cap\nmax_cross: 30%", `lane.yaml:2: max_cross: "30%" is no share from 0 to 1, such as 0.1`},
		{"on_empty: cap\nmax_cross: -0.1", "is no share"},
		{"on_empty: stay", `lane.yaml:1: on_empty: "stay" is not one of cross, cap, fail`},
		{"on_empty: fail\nmax_cross: 0.1", "lane.yaml:2: max_cross: it caps nothing: set on_empty: cap, or min_local to 2 or more"},
		{"zone_mode: required\non_empty: fail", "lane.yaml:2: on_empty: zone_mode (lane.yaml:1) is required, and only with affinity"},
		{"zone_mode: off\nmin_local: 2", "lane.yaml:2: min_local: zone_mode (lane.yaml:1) is off"},
		{"warmup: 30", `"30" has no unit; say 30s`},
		{"warmup: 2h", "between 0s and 1h"},
		{"cors_tag: maybe", `lane.yaml:1: cors_tag: has to be true or false, not "maybe"`},
		{"no_store: yes", `lane.yaml:1: no_store: "yes" is not one of off, lane, all`},
		{"warmup: 2m\nwarmup_curve: steep", `lane.yaml:2: warmup_curve: "steep" is not one of linear, quadratic`},
		{"env: a\nsticky: client_ip", "lane.yaml:2: sticky: client_ip holds the client's address, which many users share and one user changes; take a header or a cookie that names a user or a tenant"},
		{"sticky: random", "lane.yaml:1: sticky: random is chance: one user would see both systems; take a header or a cookie"},
		{"sticky: { header: X-Real-IP }", "lane.yaml:1: sticky: header x-real-ip holds the client's address"},
		{"sticky: { header: traceparent }", "differs for each request, which is chance; take a header or a cookie"},
		{"sticky: { query: uid }", `"query" is no place of a key; say { header: NAME } or { cookie: NAME }`},
		{"sticky: { header: a-b, cookie: c }", "lane.yaml:1: sticky: a header or a cookie, one of them"},
		{"sticky: {}", "lane.yaml:1: sticky: a header or a cookie, one of them"},
		{"sticky: x-user-id", `lane.yaml:1: sticky: "x-user-id": say { header: NAME } or { cookie: NAME }`},
		{"sticky: [x-user-id]", "lane.yaml:1: sticky: has to be a mapping"},
		{"sticky: { header: [a-b] }", "lane.yaml:1: sticky.header: has to be one value"},
		{"warmup_curve: quadratic", "lane.yaml:1: warmup_curve: there is no warm-up that it could be of: set warmup, or LANE_WARMUP"},
		{"strict: true\nno_match: fallback", "lane.yaml:2: no_match: strict (lane.yaml:1) means fail"},
		{"env: a\nenv: b", "lane.yaml:2: env: is there twice, first in line 1"},
		{"[1: 2", "lane.yaml:1: "},
		{"a: b: c", "lane.yaml:1: mapping values are not allowed"},
		{"env: a\nzone: *none", "lane.yaml:2: unknown anchor"},
		{"\tenv: a", "lane.yaml:1: "},
		{"just words", "lane.yaml:1: has to be a mapping"},
		{"env: a\n---\nenv: b", "lane.yaml:2: more than one document"},
		{"<<: {env: a}", "lane.yaml:1: <<: unknown key"},
		{"? [a]\n: b", "a name has to be a word"},
	} {
		_, err := loadText(t, c.text)
		var inv *Invalid
		if !errors.As(err, &inv) {
			t.Errorf("%q: error is %v, want *Invalid", c.text, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
		for _, secret := range []string{"s3cr3t", "hunter2"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the message shows the secret: %v", c.text, err)
			}
		}
	}
}

func TestFilesThatAreFine(t *testing.T) {
	for _, text := range []string{
		"", "# nothing yet\n", "---\n", "consul:\n", "services: {}", "accept: []",
		"env: &e test\nzone: *e\n", "\ufeffenv: test\n", "consul: { address: 'unix:///run/consul.sock' }",
		"consul: { address: 'https://consul.example.com' }", "consul: { address: '[::1]:8500' }",
		"proxy: localhost:0", "drain: 0s", "max_stale: 0s", "advertise: fe80::1", "strict: true", "strict: True",
	} {
		if _, err := loadText(t, text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSeveralProblemsTogether(t *testing.T) {
	_, err := loadText(t, "registr: x\nstrict: maybe\ndrain: 3\n", func(o *Options) {
		o.Getenv = env(map[string]string{"LANE_GUARD": "x"})
		o.Flags = []Flag{{Key: "env", Name: "--env", Values: []string{""}}}
		o.Services = []string{"a=b", "nowhere"}
	})
	var inv *Invalid
	if !errors.As(err, &inv) || len(inv.Problems) != 7 {
		t.Fatalf("%v", err)
	}
	for i, source := range []string{"lane.yaml:1", "lane.yaml:2", "lane.yaml:3", "LANE_GUARD", "--env", "-s", "-s"} {
		if inv.Problems[i].Source != source {
			t.Errorf("problem %d is of %s, want %s", i, inv.Problems[i].Source, source)
		}
	}
	if !strings.HasPrefix(err.Error(), "settings: 7 problems\n  lane.yaml:1: ") {
		t.Error(err)
	}
}

// A mistake does not hide what could be read, and a value that a mistake stands before
// is not shown as if it were in effect.
func TestWhatCouldBeRead(t *testing.T) {
	_, err := loadText(t, "env: test\ndrain: 30\nzone: eu 1\nservices:\n  a: 80\n  b: x\nregistr: x\nno_match: fail\nstrict: true\nowner: alice\nunhealthy_lane: fallback\n", func(o *Options) {
		o.Getenv = env(map[string]string{"LANE_ZONE": "eu-1", "LANE_GUARD": "x", "LANE_OWNER": "\t"})
	})
	var inv *Invalid
	if !errors.As(err, &inv) || len(inv.Files) != 1 || len(inv.Entries) != len(Keys()) {
		t.Fatalf("%v, read %v", err, inv)
	}
	for key, want := range map[string]Entry{
		"env":            {Value: "test", Source: "lane.yaml:1"},
		"drain":          {Source: "lane.yaml:2", Wrong: true},
		"zone":           {Value: "eu-1", Source: "LANE_ZONE"}, // what is wrong is weaker
		"services":       {Source: "lane.yaml:6", Wrong: true},
		"guard":          {Source: "LANE_GUARD", Wrong: true},
		"owner":          {Source: "LANE_OWNER", Wrong: true}, // and not the weaker one
		"strict":         {Value: "true", Source: "lane.yaml:9"},
		"unhealthy_lane": {Value: "fallback", Source: "lane.yaml:11"}, // it does not fit, and was read
		"register":       {Value: "auto", Source: "default"},
	} {
		want.Key = key
		if i := slices.Index(Keys(), key); inv.Entries[i] != want {
			t.Errorf("%s: %+v, want %+v", key, inv.Entries[i], want)
		}
	}
}

func TestWhatDoesNothingWithoutAZone(t *testing.T) {
	for text, want := range map[string]string{
		"on_empty: fail": "on_empty (lane.yaml:1): does nothing without a zone",
		"min_local: 2\nmax_cross: 0.1\non_empty: cap": "min_local (lane.yaml:1), max_cross (lane.yaml:2), on_empty (lane.yaml:3): does nothing",
		"on_empty: fail\nzone: eu-1":                  "",
		"zone: eu-1":                                  "",
		"zone_mode: affinity":                         "",
		"":                                            "",
	} {
		s, err := loadText(t, text)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(s.Warnings(), "|")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A session's settings stand for those of here by which a proxy decides, and for no
// others; flags come before them.
func TestASessionsSettings(t *testing.T) {
	const theirs = "preset: mse\naccept: [x-old-lane, asm]\nhosts: { a.test: orders, b.test: stock }\ncolored: [\"*.partner.test\"]\nenv: test\nstrict: true\n" +
		"on_empty: cap\nmax_cross: 0.1\nzone: eu-1\nwarmup: 2m\nsticky: { header: X-User }\nmax_stale: 1m\nguard: reject\n"
	there, err := loadText(t, theirs)
	if err != nil {
		t.Fatal(err)
	}
	given := there.Deciding()
	if given["guard"] != "" || given["no_match"] != "fail" || given["unhealthy_lane"] != "" {
		t.Errorf("%v", given)
	}
	s, err := loadText(t, "header: x-team\nenv: other\nno_match: fail\ntenant: acme\nzone_mode: off\ndrain: 5s\n", func(o *Options) {
		o.Session, o.SessionName = given, "the session"
		o.Getenv = env(map[string]string{"LANE_ENV": "env", "LANE_MIN_LOCAL": "7", "LANE_OWNER": "alice"})
		o.Flags = []Flag{{Key: "zone", Name: "--zone", Values: []string{"eu-2"}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range s.Entries() {
		want := Entry{Key: one.Key, Value: find(one.Key).show(there), Source: "the session"}
		switch {
		case one.Key == "zone":
			want.Value, want.Source = "eu-2", "--zone"
		case !slices.Contains(deciding, one.Key):
			continue
		case given[one.Key] == "" && one.Key != "header":
			want.Source = "default"
		case one.Key == "header":
			want.Source = "preset is set"
		}
		if one != want {
			t.Errorf("%+v, want %+v", one, want)
		}
	}
	if s.Owner != "alice" || s.Drain != 5*time.Second || s.Policy().NoMatch != there.Policy().NoMatch || s.StickyKey() != there.StickyKey() {
		t.Errorf("%+v", s)
	}
	// Defaults are settings too: a session that has none of its own has none from here.
	s, err = loadText(t, "env: other\nno_match: fail\ncolored: [a.test]\n", func(o *Options) { o.Session = map[string]string{} })
	if err != nil || s.Env != "" || s.NoMatch != Fallback || len(s.Colored) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestStrongerSourcesWin(t *testing.T) {
	user := filepath.Join(write(t, map[string]string{"u.yaml": "env: user\nzone: user\ntenant: user\nversion: user\npreset: mse\n"}), "u.yaml")
	s, err := loadText(t, "env: project\nzone: project\ntenant: project\nheader: x-team\n", func(o *Options) {
		o.UserFile = user
		o.Getenv = env(map[string]string{"LANE_ENV": "env", "LANE_ZONE": "env", "LANE_TAG": "dev-bob", "LANE_PROBES": "/a, /b,"})
		o.Flags = []Flag{{Key: "env", Name: "--env", Values: []string{"flag"}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{s.Env, s.Source("env"), s.Zone, s.Source("zone"), s.Tenant, s.Source("tenant"), s.Version, s.Source("version"),
		s.Header, s.Preset, s.Lane, strings.Join(s.Probes, " ")}
	want := []string{"flag", "--env", "env", "LANE_ZONE", "project", "lane.yaml:3", "user", user + ":4", "x-team", "", "dev-bob", "/a /b"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(s.Files()) != 2 || s.Files()[1] != user {
		t.Errorf("files %q", s.Files())
	}
	// The other way round: a stronger preset ends a weaker header.
	s, err = loadText(t, "header: x-team\n", func(o *Options) { o.Getenv = env(map[string]string{"LANE_PRESET": "mse"}) })
	if err != nil || s.Preset != "mse" || s.Header != "" {
		t.Errorf("%+v, %v", s, err)
	}
	// LANE_PROXY is told to children and is no setting.
	s, err = loadText(t, "", func(o *Options) { o.Getenv = env(map[string]string{"LANE_PROXY": "http://127.0.0.1:9"}) })
	if err != nil || s.Proxy != "127.0.0.1:7474" {
		t.Errorf("%v, %v", s, err)
	}
}

func TestConsulsOwnEnvironment(t *testing.T) {
	const text = "consul: { address: 'file:1', token_file: t, ca_file: c, namespace: f }\n"
	s, err := loadText(t, text, func(o *Options) {
		o.Getenv = env(map[string]string{"CONSUL_HTTP_ADDR": "env:2", "CONSUL_CACERT": "/ca", "CONSUL_HTTP_TOKEN": "s3cr3t", "CONSUL_NAMESPACE": "e"})
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Consul{Address: "env:2", CAFile: "/ca", Namespace: "e"}); s.Consul != want {
		t.Errorf("%+v, want %+v", s.Consul, want)
	}
	found := false
	for _, e := range s.Entries() {
		found = found || e.Key == "consul.token" && e.Source == "CONSUL_HTTP_TOKEN"
		if strings.Contains(e.Value, "s3cr3t") {
			t.Errorf("%s shows the token", e.Key)
		}
	}
	if !found {
		t.Error("nothing says that a token is set")
	}
	// Without it the file of lane.yaml holds, and there is no entry for a token.
	s, err = loadText(t, text)
	if err != nil || filepath.Base(s.Consul.TokenFile) != "t" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, e := range s.Entries() {
		if e.Key == "consul.token" {
			t.Errorf("%+v", e)
		}
	}
	// LANE_ is stronger, and a flag stronger still.
	s, err = loadText(t, text, func(o *Options) {
		o.Getenv = env(map[string]string{"CONSUL_HTTP_ADDR": "env:2", "LANE_CONSUL_ADDRESS": "lane:3"})
	})
	if err != nil || s.Consul.Address != "lane:3" || s.Source("consul.address") != "LANE_CONSUL_ADDRESS" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestServicesOfTheCommandLine(t *testing.T) {
	const text = "services: { order-service: { port: 8080, health: /h }, billing: 9090 }\n"
	for _, c := range []struct {
		args []string
		want []Service
		err  string
	}{
		{nil, []Service{{Name: "billing", Port: 9090}, {Name: "order-service", Port: 8080, Health: "/h"}}, ""},
		{[]string{"order-service"}, []Service{{Name: "order-service", Port: 8080, Health: "/h"}}, ""},
		{[]string{"order-service=81"}, []Service{{Name: "order-service", Port: 81, Health: "/h"}}, ""},
		{[]string{"new=1", "billing"}, []Service{{Name: "new", Port: 1}, {Name: "billing", Port: 9090}}, ""},
		{[]string{"new"}, nil, "new has no port here and none in lane.yaml; say -s new=PORT"},
		{[]string{"biling"}, nil, "did you mean billing?"},
		{[]string{"billing", "billing=1"}, nil, "billing is given twice"},
	} {
		s, err := loadText(t, text, func(o *Options) { o.Services = c.args })
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v, want %s", c.args, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		if d := cmp.Diff(c.want, s.Services); d != "" {
			t.Errorf("%q: %s", c.args, d)
		}
	}
}

func TestServicesAreNotForTheUsersFile(t *testing.T) {
	user := filepath.Join(write(t, map[string]string{"u.yaml": "services: { a: 1 }\n"}), "u.yaml")
	if _, err := Load(Options{Dir: t.TempDir(), UserFile: user}); err == nil || !strings.Contains(err.Error(), "belongs into a repository's") {
		t.Errorf("%v", err)
	}
	if s, err := Load(Options{Dir: t.TempDir(), UserFile: user + ".absent"}); err != nil || s.Files() != nil {
		t.Errorf("an absent file of the user's: %v, %v", s, err)
	}
}

func TestFlagOfNoSetting(t *testing.T) {
	for _, f := range []Flag{{Key: "nope", Name: "--nope", Values: []string{"x"}}, {Key: "services", Name: "--services", Values: []string{"x"}}, {Key: "env", Name: "--env"}} {
		if _, err := Load(Options{Dir: t.TempDir(), Flags: []Flag{f}}); err == nil {
			t.Errorf("%+v was taken", f)
		}
	}
}

// A fingerprint that stands in a relay's URL is that relay's, and no other's.
func TestAFingerprintGoesWithItsURL(t *testing.T) {
	const one, two = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	env := func(vars map[string]string) func(string) string { return func(k string) string { return vars[k] } }
	flag := func(v string) []Flag { return []Flag{{Key: "relay", Name: "--relay", Values: []string{v}}} }
	for name, c := range map[string]struct {
		env       map[string]string
		flags     []Flag
		want, pin string
	}{
		"in the URL":                     {env: map[string]string{"LANE_RELAY": "wss://a#" + one}, want: "wss://a", pin: one},
		"another URL":                    {env: map[string]string{"LANE_RELAY": "wss://a#" + one}, flags: flag("wss://b"), want: "wss://b"},
		"another URL with its own":       {env: map[string]string{"LANE_RELAY": "wss://a#" + one}, flags: flag("wss://b#" + two), want: "wss://b", pin: two},
		"by itself, for whatever relay":  {env: map[string]string{"LANE_RELAY": "wss://a", "LANE_RELAY_FINGERPRINT": one}, flags: flag("wss://b"), want: "wss://b", pin: one},
		"by itself, weaker than the URL": {env: map[string]string{"LANE_RELAY_FINGERPRINT": one}, flags: flag("wss://b#" + two), want: "wss://b", pin: two},
		"none":                           {env: map[string]string{"LANE_RELAY": "wss://a#" + one}, flags: flag("none")},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Load(Options{Dir: t.TempDir(), Getenv: env(c.env), Flags: c.flags})
			if err != nil || s.Relay != c.want || s.RelayFingerprint != c.pin {
				t.Errorf("%q %q, %v", s.Relay, s.RelayFingerprint, err)
			}
		})
	}
}
