package printer

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lane/pkg/admin"
	"lane/pkg/chain"
	"lane/pkg/compare"
	"lane/pkg/config"
	"lane/pkg/control"
	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/metrics"
	"lane/pkg/traffic"
)

// fields lists the JSON names of a struct, nested ones behind a dot.
func fields(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			out = append(out, fields(f.Type, prefix)...)
			continue
		}
		out = append(out, prefix+name)
		in := f.Type
		if in.Kind() == reflect.Slice {
			in = in.Elem()
		}
		if in.Kind() == reflect.Struct && in != reflect.TypeFor[time.Time]() {
			out = append(out, fields(in, prefix+name+".")...)
		}
	}
	return out
}

// TestJSONFieldsArePinned: a field that goes or changes its name breaks the
// scripts of others, and needs a new version of its schema.
func TestJSONFieldsArePinned(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{Lanes{}, "schema lanes lanes.lane lanes.state lanes.killed lanes.owners lanes.services lanes.services.service lanes.services.state " +
			"lanes.services.owner lanes.services.host lanes.services.since"},
		{LaneDetail{}, "schema lane state killed services services.service services.state services.owner services.host services.since " +
			"services.declared services.mode services.registered services.session services.install services.relay services.vacant services.active services.instances " +
			"services.instances.id services.instances.registered services.instances.addr services.instances.node services.instances.health " +
			"services.instances.note services.instances.owner services.instances.local services.instances.draining services.instances.weight " +
			"services.instances.env services.instances.tenant services.instances.zone services.instances.version"},
		{ExchangeRecord{}, "schema seq start took_ms first_ms dns_ms conn_ms front from method url proto service tag lane route kind reason code guard why note " +
			"instance addr tries status req_size res_size err trace_id warnings req_header res_header"},
		{LostRecord{}, "schema lost"},
		{Top{}, "schema seconds ports ports.addr ports.service ports.id ports.error services services.service services.lane " +
			"services.in services.in.requests services.in.errors services.in.fallbacks services.in.rate services.in.p50_ms services.in.p95_ms " +
			"services.in.p99_ms services.baseline services.baseline.requests services.baseline.errors services.baseline.fallbacks " +
			"services.baseline.rate services.baseline.p50_ms services.baseline.p95_ms services.baseline.p99_ms services.served " +
			"services.served.instance services.served.requests services.served.errors"},
		{metrics.Stats{}, "schema rows rows.service rows.lane rows.front rows.short rows.short.seconds rows.short.requests rows.short.errors " +
			"rows.short.fallbacks rows.short.rate rows.short.p50_ms rows.short.p95_ms rows.short.p99_ms rows.short.took rows.short.took.up_to_ms " +
			"rows.short.took.count rows.short.instances rows.short.instances.instance rows.short.instances.requests rows.short.instances.errors " +
			"rows.long rows.long.seconds rows.long.requests rows.long.errors rows.long.fallbacks rows.long.rate rows.long.p50_ms rows.long.p95_ms " +
			"rows.long.p99_ms rows.long.took rows.long.took.up_to_ms rows.long.took.count rows.long.instances rows.long.instances.instance " +
			"rows.long.instances.requests rows.long.instances.errors"},
		{Chain{}, "schema check url lane ok samples entered complete failed traces traces.trace_id traces.verdict traces.links traces.links.depth " +
			"traces.links.from traces.links.to traces.links.state traces.links.lane traces.links.decision traces.links.instance " +
			"traces.links.served traces.links.why traces.break traces.unseen traces.missing"},
		{chain.Break{}, "from to why"},
		{chain.Hops{}, "schema service hops hops.front hops.service hops.tag hops.lane hops.decision hops.reason hops.code hops.instance " +
			"hops.status hops.start hops.took_ms hops.trace_id hops.client_trace_id hops.strayed hops.others"},
		{admin.Rev{}, "schema follows revision since refused why own"},
		{chain.LaneSeen{}, "schema lane requests lost last"},
		{admin.Readiness{}, "schema ready checks checks.name checks.ok checks.why"},
		{Explanation{}, "schema url service tag lane kind reason code http header message hint registry_age_ms instances instances.id instances.addr " +
			"instances.node instances.lane instances.health instances.owner instances.env instances.tenant instances.zone instances.version " +
			"instances.chosen instances.share instances.why warnings metrics color"},
		{ExplainedColor{}, "rules entry source rule lane rejected asked asked.rule asked.source asked.priority asked.line asked.lane asked.hit " +
			"asked.why asked.percent asked.bucket asked.whitelist warnings"},
		{Settings{}, "schema settings settings.key settings.value settings.source settings.wrong problems problems.source problems.key problems.why warnings"},
		{Diff{}, "schema lane same baseline baseline.status baseline.decision baseline.took_ms baseline.bytes baseline.error " +
			"in_lane in_lane.status in_lane.decision in_lane.took_ms in_lane.bytes in_lane.error lane_served " +
			"differences differences.where differences.old differences.new differences.by_index ignored"},
		{control.RelayStatus{}, "url name state since round_trip outgoing error tries next cut removed gone"},
		{control.Status{}, "schema lane owner host env pid started proxy mitm ca bodies log child state waiting killed registry registry.address registry.state registry.since " +
			"registry.index registry.error registry.critical registry.removed relay services services.name services.registered services.id services.mode services.guard services.local services.state " +
			"services.note services.claim counts counts.exchanges counts.matched counts.fallbacks counts.errors counts.guard counts.external counts.killed warnings settings steps steps.name steps.began steps.took history history.at history.level history.text"},
	} {
		got := strings.Join(fields(reflect.TypeOf(c.v), ""), " ")
		if got != c.want {
			t.Errorf("%T:\n got %s\nwant %s", c.v, got, c.want)
		}
	}
}

var (
	claims = []lane.Claim{
		{Lane: "dev-alice", Service: "reviews", Owner: "alice", Host: "laptop", Session: "s1", Mode: "shared", Registered: "reviews", Since: "2026-01-02T03:04:05Z", Install: "i1"},
		{Lane: "dev-alice", Service: "orders", Owner: "alice", Host: "laptop", Session: "s1", Mode: "shared", Registered: "orders", Since: "2026-01-02T03:04:05Z"},
		{Lane: "dev-bob", Service: "ratings", Owner: "bob"}, // without a session: declares nothing
	}
	instances = map[string][]lane.Instance{
		"reviews": {
			{ID: "r1", Addr: "10.0.0.1:80", MetaLane: "dev-alice", Registered: "reviews", Local: true, Weight: 1},
			{ID: "base", Addr: "10.0.0.9:80", Weight: 1},
		},
		"ratings": {
			{ID: "x2", Addr: "10.0.0.3:80", MetaTag: "dev-bob", Health: lane.Critical, HealthNote: "connection \x1brefused", Owner: "bob", Weight: 1},
			{ID: "x1", Addr: "10.0.0.2:80", MetaLane: "dev-bob", Health: lane.Passing, Owner: "bob", Weight: 1},
		},
		"debugger": {{ID: "g1", Addr: "10.0.0.5:80", MetaLane: "dev-erin", Registered: "lane-dev-erin-debugger", Weight: 1, Owner: "erin"}},
		"details":  {{ID: "d1", Addr: "10.0.0.4:80", MetaLane: "dev-carol", Draining: true, Weight: 1, Owner: "carol"}},
	}
)

func TestNewLanes(t *testing.T) {
	got := NewLanes(claims, instances)
	want := Lanes{Schema: LanesSchema, Lanes: []LaneRow{
		{Lane: "dev-alice", State: "no instance", Owners: []string{"alice"}, Services: []ServiceState{
			{"orders", "no instance", "alice", "laptop", "2026-01-02T03:04:05Z"}, {"reviews", "up", "alice", "laptop", "2026-01-02T03:04:05Z"}}},
		{Lane: "dev-bob", State: "not claimed", Owners: []string{"bob"}, Services: []ServiceState{{"ratings", "not claimed", "bob", "", ""}}},
		{Lane: "dev-carol", State: "draining", Owners: []string{"carol"}, Services: []ServiceState{{"details", "draining", "carol", "", ""}}},
		{Lane: "dev-erin", State: "exposed", Owners: []string{"erin"}, Services: []ServiceState{{"debugger", "exposed", "erin", "", ""}}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	empty := NewLanes(nil, nil)
	if b, err := json.Marshal(empty); err != nil || string(b) != `{"schema":"lane.ls/v1","lanes":[]}` {
		t.Errorf("no lanes: %s, %v", b, err)
	}
}

func TestPrintLanes(t *testing.T) {
	s, out := terminal(100)
	if err := PrintLanes(s, NewLanes(claims, instances)); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"LANE       STATE        SERVICES              OWNER  SINCE\n" +
		"dev-alice  no instance  orders, reviews (up)  alice  2026-01-02T03:04:05Z\n" +
		"dev-bob    not claimed  ratings               bob\n" +
		"dev-carol  draining     details               carol\n" +
		"dev-erin   exposed      debugger              erin\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	s, out = piped()
	if err := PrintLanes(s, NewLanes(claims, instances)); err != nil || !strings.HasPrefix(out.String(), "dev-alice\tno instance\torders, reviews (up)\talice\t2026-01-02T03:04:05Z\n") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestPrintLane(t *testing.T) {
	details := NewLaneDetails(claims, instances)
	s, out := piped()
	for i := range details {
		if err := PrintLane(s, &details[i]); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Join([]string{
		"lane\tdev-alice\tno instance",
		"service\torders\tno instance",
		"claim\torders\tclaimed by alice at laptop since 2026-01-02T03:04:05Z (their clock)",
		"registered\torders\torders\tshared",
		"service\treviews\tup",
		"claim\treviews\tclaimed by alice at laptop since 2026-01-02T03:04:05Z (their clock)",
		"registered\treviews\treviews\tshared",
		"instance\treviews\tr1\t10.0.0.1:80\tpassing\ta developer's machine",
		"lane\tdev-bob\tnot claimed",
		"service\tratings\tnot claimed",
		"claim\tratings\tnot claimed: an instance that is missing here is a fallback",
		"instance\tratings\tx1\t10.0.0.2:80\tpassing\t",
		`instance	ratings	x2	10.0.0.3:80	critical	connection \x1brefused`,
		"lane\tdev-carol\tdraining",
		"service\tdetails\tdraining",
		"claim\tdetails\tnot claimed: an instance that is missing here is a fallback",
		"instance\tdetails\td1\t10.0.0.4:80\tpassing\tdraining",
		"lane\tdev-erin\texposed",
		"service\tdebugger\texposed",
		"claim\tdebugger\texposed, and nobody is routed to it: who dials lane-dev-erin-debugger reaches it",
		"registered\tdebugger\tlane-dev-erin-debugger\t",
		"instance\tdebugger\tg1\t10.0.0.5:80\tpassing\t", "",
	}, "\n")
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func TestStatus(t *testing.T) {
	st := &control.Status{
		Lane: "dev-alice", Owner: "alice", Host: "laptop", PID: 7, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Proxy: "http://127.0.0.1:7474", State: "up", Registry: control.RegistryStatus{Address: "127.0.0.1:8500", State: "fresh"},
		Services: []control.Service{{Name: "orders", Registered: "orders", Mode: "shared", Guard: "10.0.0.1:4", Local: "127.0.0.1:8080", State: control.StateUp, Note: "a\x1bb"}},
		Counts:   control.Counts{Exchanges: 5, Matched: 2, Fallbacks: map[string]uint64{"lane_absent": 2, "lane_drained": 1}, Errors: map[string]uint64{}},
		Warnings: []string{"careful"},
	}
	s, out := piped()
	if err := Status(s, st); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"lane\tdev-alice", "state\tup", "owner\talice\tlaptop", "pid\t7", "started\t2026-01-02T03:04:05Z", "proxy\thttp://127.0.0.1:7474",
		"registry\t127.0.0.1:8500\tfresh\t", `service	orders	up	shared	orders	10.0.0.1:4	127.0.0.1:8080	a\x1bb`,
		"exchanges\t5", "matched\t2", "external\t0", "fallback\tlane_absent\t2", "fallback\tlane_drained\t1", "warning\tcareful", "",
	}, "\n")
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	st.Registry = control.RegistryStatus{Address: "127.0.0.1:8500", State: "unreachable", Since: time.Date(2026, 1, 2, 4, 5, 6, 0, time.UTC), Error: "refused"}
	s, out = piped()
	if err := Status(s, st); err != nil || !strings.Contains(out.String(), "\nregistry\t127.0.0.1:8500\tunreachable\tsince 2026-01-02T04:05:06Z: refused\n") {
		t.Errorf("%s, %v", out, err)
	}
	for _, c := range []struct {
		r    control.RelayStatus
		want string
	}{
		{control.RelayStatus{URL: "wss://r", State: control.RelayOK, RoundTrip: 0.0384}, "\nrelay\twss://r\tok\t38ms\t\n"},
		{control.RelayStatus{URL: "wss://r", State: control.RelayOK, RoundTrip: 0.0002}, "\nrelay\twss://r\tok\t1ms\t\n"},
		{control.RelayStatus{URL: "wss://r", State: control.RelayLost, Error: "refused"}, "\nrelay\twss://r\tlost\t\trefused\n"},
	} {
		st.Relay = &c.r
		s, out = piped()
		if err := Status(s, st); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s, %v; want %q", out, err, c.want)
		}
	}
	s, out = terminal(80)
	if err := Status(s, st); err != nil || !strings.Contains(out.String(), "\nproxy      http://127.0.0.1:7474\n") {
		t.Errorf("%s, %v", out, err)
	}
}

func exchange() *traffic.Exchange {
	return &traffic.Exchange{
		Seq: 3, Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 1500 * time.Microsecond, Front: traffic.FrontForward, From: "127.0.0.1:5",
		Method: "GET", URL: "http://u:hunter2@inventory/stock?token=hunter2&q=\x1b[2J", Service: "inventory", Tag: "dev-alice", Lane: "dev-alice",
		Kind: lane.KindFallback, Reason: "lane_absent", Instance: "b1", Status: 200,
		ReqHeader: traffic.HeadOf(http.Header{"Authorization": {"Bearer hunter2"}}), ResHeader: traffic.HeadOf(http.Header{"Set-Cookie": {"s=hunter2; Path=/"}}),
	}
}

func TestExchangeLines(t *testing.T) {
	s, out := piped()
	if err := Exchange(s, exchange()); err != nil {
		t.Fatal(err)
	}
	line := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\t")
	want := []string{"2026-01-02T03:04:05.000Z", "forward", "me", "GET", `http://u:***@inventory/stock?token=***&q=\x1b[2J`, "BASE~fb", "200", "1.500", "dev-alice", "lane_absent", "", "", "b1"}
	if d := cmp.Diff(want, line[:len(line)-1]); d != "" || line[len(line)-1] == "" {
		t.Errorf("%s; why: %q", d, line[len(line)-1])
	}
	s, out = terminal(80)
	if err := Exchange(s, exchange()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"> BASE~fb  200   1.5ms  GET http://u:***@inventory/", " -> b1  ("} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in %q", part, out)
		}
	}
	// What went as expected needs no reason; what failed says how.
	good := exchange()
	good.Kind, good.Reason, good.URL = lane.KindLaneMatch, "", "http://a/"
	bad := exchange()
	bad.Status, bad.Err = 0, "connection reset\x1b"
	for e, part := range map[*traffic.Exchange]string{good: "GET http://a/ -> b1\n", bad: `  connection reset\x1b  (`} {
		out.Reset()
		if err := Exchange(s, e); err != nil || !strings.Contains(out.String(), part) {
			t.Errorf("%q, %v, want %q", out, err, part)
		}
	}
	if strings.Contains(out.String(), "hunter2") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("a secret or an escape in %q", out)
	}
}

func TestExchangeRecordMasksSecrets(t *testing.T) {
	s, out := piped()
	if err := JSONLine(s, NewExchangeRecord(exchange())); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") || strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), `"warnings":[]`) {
		t.Errorf("%s", out)
	}
	var back ExchangeRecord
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Seq != 3 || back.TookMS != 1.5 || back.Route != "BASE~fb" || back.ReqHeader.Get("Authorization") != "Bearer ***" {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestLost(t *testing.T) {
	s, out := piped()
	errOut := s.Err.(interface{ String() string })
	if err := Lost(s, 0); err != nil || errOut.String() != "" {
		t.Errorf("%q, %v", errOut, err)
	}
	if err := Lost(s, 7); err != nil || !strings.HasPrefix(errOut.String(), "7 exchanges") || out.Len() > 0 {
		t.Errorf("%q, %q, %v", errOut, out, err)
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0µs", 999 * time.Microsecond: "999µs", 1500 * time.Microsecond: "1.5ms", 15 * time.Millisecond: "15ms",
		1500 * time.Millisecond: "1.5s", 150 * time.Second: "2m30s",
	} {
		if got := Took(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func explanation() Explanation {
	match, base := lane.Instance{ID: "g1", Addr: "10.0.0.1:80", MetaLane: "dev-alice", Weight: 1}, lane.Instance{ID: "b1", Addr: "10.0.0.2:80", Weight: 1}
	return NewExplanation("http://u:hunter2@orders/", lane.ParseTag("dev-alice"), &lane.Explanation{
		Decision:  lane.Decision{Kind: lane.KindLaneMatch, Service: "orders", Lane: "dev-alice", Warnings: []string{"w"}},
		Instances: []lane.Verdict{{Instance: &base, Why: "baseline: lane \x1bdev-alice serves this request"}, {Instance: &match, Chosen: true, Share: 1}},
	})
}

func TestPrintExplanation(t *testing.T) {
	s, out := terminal(80)
	if err := PrintExplanation(s, explanation()); err != nil {
		t.Fatal(err)
	}
	want := `LANE_MATCH; lane=dev-alice
orders is served by lane dev-alice; the request's tag: dev-alice

INSTANCE  ADDRESS      LANE       HEALTH
b1        10.0.0.2:80  baseline   passing  baseline: lane \x1bdev-alice serves this request
g1        10.0.0.1:80  dev-alice  passing  chosen, 100 %
warning: w
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	s, out = piped()
	if err := PrintExplanation(s, explanation()); err != nil {
		t.Fatal(err)
	}
	want = "decision\tLANE_MATCH; lane=dev-alice\torders is served by lane dev-alice\ntag\tdev-alice\n" +
		"instance\tb1\t10.0.0.2:80\tbaseline\tpassing\tbaseline: lane \\x1bdev-alice serves this request\n" +
		"instance\tg1\t10.0.0.1:80\tdev-alice\tpassing\tchosen, 100 %\nwarning\tw\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	if e := explanation(); strings.Contains(e.URL, "hunter2") {
		t.Errorf("the URL shows its password: %s", e.URL)
	}
}

func TestPrintExplanationOfAnError(t *testing.T) {
	e := NewExplanation("http://orders/", lane.Tag{}, &lane.Explanation{Decision: lane.Decision{Kind: lane.KindError, Code: lane.CodeNoInstances, Reason: "no_instances", Service: "orders"}})
	if e.HTTP != 503 || e.Hint == "" || e.Instances == nil {
		t.Errorf("%+v", e)
	}
	s, out := terminal(80)
	if err := PrintExplanation(s, e); err != nil || !strings.Contains(out.String(), "\nhint: ") || strings.Contains(out.String(), "ADDRESS") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestPrintSettings(t *testing.T) {
	all := NewSettings([]config.Entry{{Key: "env", Value: "", Source: "default"}, {Key: "drain", Value: "5s", Source: "lane.yaml:3"}, {Key: "guard", Source: "LANE_GUARD", Wrong: true}})
	s, out := terminal(80)
	if err := PrintSettings(s, all); err != nil || out.String() != "SETTING  VALUE  FROM\nenv      -      default\ndrain    5s     lane.yaml:3\nguard    ?      LANE_GUARD\n" {
		t.Errorf("%s, %v", out, err)
	}
	s, out = piped()
	if err := PrintSettings(s, all); err != nil || out.String() != "env\t\tdefault\ndrain\t5s\tlane.yaml:3\nguard\t?\tLANE_GUARD\n" {
		t.Errorf("%s, %v", out, err)
	}
}

// Two that failed alike are not "no difference".
func TestDiffSaysThatItFailed(t *testing.T) {
	for _, c := range []struct{ base, in, want string }{
		{"", "", "no difference\n"},
		{"E_X", "E_X", "both failed: E_X\n"},
		{"E_X", "E_Y", "both failed: the baseline: E_X; the lane: E_Y\n"},
		{"E_X", "", "the baseline failed: E_X\n"},
		{"", "E_Y", "the lane failed: E_Y\n"},
	} {
		var b bytes.Buffer
		if err := PrintDiff(&iostreams.IOStreams{Out: &b}, &Diff{LaneServed: true, Baseline: DiffAnswer{Error: c.base}, InLane: DiffAnswer{Error: c.in}}); err != nil {
			t.Fatal(err)
		}
		if lines := strings.SplitAfterN(b.String(), "\n", 3); lines[2] != c.want {
			t.Errorf("%q, %q: %q, want %q", c.base, c.in, lines[2], c.want)
		}
	}
}

// Two answers of the baseline are not "no difference".
func TestDiffSaysThatTheLaneDidNotServe(t *testing.T) {
	const itself = "the lane did not serve it: the baseline was compared with itself"
	for _, c := range []struct {
		name string
		d    Diff
		want string
	}{
		{"served", Diff{LaneServed: true, InLane: DiffAnswer{Decision: "LANE_MATCH"}}, "no difference\n"},
		{"killed", Diff{InLane: DiffAnswer{Decision: "KILL_SWITCH_BASELINE; reason=lane_killed"}}, itself + "\n"},
		{"absent", Diff{InLane: DiffAnswer{Decision: "FALLBACK_BASELINE; lane=a"}}, itself + ", unless a service behind it is in the lane\n"},
		{"not known", Diff{}, "the answer does not say that the lane served it: it has no X-Lane-Decision\n"},
		{"failed", Diff{InLane: DiffAnswer{Error: "E_X", Decision: "ERROR"}}, "the lane failed: E_X\n"},
		{"by chance", Diff{InLane: DiffAnswer{Decision: "BASELINE"}, Differences: []compare.Difference{{Where: "status", Old: "1", New: "2"}}},
			itself + "\n1 difference (- baseline, + lane):\nstatus\n  - 1\n  + 2\n"},
	} {
		var b bytes.Buffer
		if err := PrintDiff(&iostreams.IOStreams{Out: &b}, &c.d); err != nil {
			t.Fatal(err)
		}
		if lines := strings.SplitAfterN(b.String(), "\n", 3); lines[2] != c.want {
			t.Errorf("%s: %q, want %q", c.name, lines[2], c.want)
		}
	}
}

func TestDiffIsPrintedWithoutSecrets(t *testing.T) {
	var b bytes.Buffer
	d := Diff{Lane: "dev-alice", Baseline: DiffAnswer{Status: 200, Bytes: 3, TookMS: 9.6, Decision: "BASELINE"}, InLane: DiffAnswer{Error: "EOF\x1b"},
		Differences: []compare.Difference{{Where: "header set-cookie", Old: "sid=hunter2; Path=/", New: ""}, {Where: "body .user.token", Old: `"hunter2"`, New: `"hunter3"`},
			{Where: "body .x", Old: `{"password":"hunter2","a":1}`, New: strings.Repeat("x", 5000)}}}
	d.Masked()
	if err := PrintDiff(&iostreams.IOStreams{Out: &b}, &d); err != nil {
		t.Fatal(err)
	}
	want := `baseline        200  10 ms  3 B  BASELINE
lane dev-alice  no answer, EOF\x1b  0 ms  0 B  
the lane failed: EOF\x1b
3 differences (- baseline, + lane):
header set-cookie
  - sid=***; Path=/
body .user.token
  - ***
  + ***
body .x
  - {"password":"***","a":1}
  + ` + strings.Repeat("x", diffValueMost) + "...\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestDiffSaysWhatWasComparedByIndex(t *testing.T) {
	for _, by := range []bool{false, true} {
		var b bytes.Buffer
		d := Diff{Lane: "dev-alice", LaneServed: true, Differences: []compare.Difference{{Where: "body [3]", Old: "1", New: "2", ByIndex: by}}}
		if err := PrintDiff(&iostreams.IOStreams{Out: &b}, &d); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "body [3] (by index)\n  - 1\n  + 2\nby index: too many items"); got != by {
			t.Errorf("by index %v:\n%s", by, b.String())
		}
	}
}
