package tui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

func TestColumns(t *testing.T) {
	for width, want := range map[int]string{
		140: "TIME12 SVC18 METH4 PATH67 ST3 MS5 ROUTE7 FROM15",
		100: "TIME12 SVC12 METH4 PATH33 ST3 MS5 ROUTE7 FROM15",
		80:  "TIME8 SVC10 METH4 PATH24 ST3 MS5 ROUTE7 FROM10",
		72:  "TIME8 SVC10 METH4 PATH16 ST3 MS5 ROUTE7 FROM10",
		71:  "TIME8 SVC10 METH4 PATH26 ST3 MS5 ROUTE7",
		61:  "TIME8 SVC10 METH4 PATH16 ST3 MS5 ROUTE7",
		60:  "SVC10 METH4 PATH24 ST3 MS5 ROUTE7",
		51:  "SVC10 METH4 PATH21 ST3 ROUTE7",
		44:  "SVC6 METH4 PATH18 ST3 ROUTE7",
		20:  "SVC6 METH4 PATH1 ST3 ROUTE7",
	} {
		cols := columns(width, 0)
		var got []string
		sum := markWidth - 1
		for _, c := range cols {
			got = append(got, fmt.Sprintf("%s%d", strings.TrimSpace(c.title), c.width))
			sum += c.width + 1
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%d columns: %s, want %s", width, g, want)
		}
		if width >= 44 && sum != width {
			t.Errorf("%d columns are %d wide", width, sum)
		}
	}
}

// TestServiceColumn: the names get what the path can spare, and no more.
func TestServiceColumn(t *testing.T) {
	for _, c := range []struct{ width, names, svc, path int }{
		{80, 0, 10, 24}, {80, 5, 10, 24}, {80, 11, 11, 23}, {80, 13, 13, 21}, {80, 20, 16, 18}, {80, 99, 16, 18},
		{72, 20, 10, 16}, {71, 13, 13, 23}, {60, 13, 13, 21}, {60, 99, 16, 18}, {44, 20, 6, 18}, {140, 20, 20, 65}, {140, 99, 20, 65},
	} {
		for _, col := range columns(c.width, c.names) {
			if col.field == colService && col.width != c.svc || col.field == colPath && col.width != c.path {
				t.Errorf("%d columns, names of %d: %s is %d wide, want %d or %d", c.width, c.names, col.title, col.width, c.svc, c.path)
			}
		}
	}
}

func TestServiceName(t *testing.T) {
	for _, c := range []struct {
		url, method, service string
		w                    int
		want                 string
	}{
		{"http://orders:8080/", "GET", "orders", 10, "orders"},
		{"http://a-long-service/", "GET", "a-long-service", 10, "a-long-se~"},
		{"http://api.test/", "GET", "", 15, "api.test"},
		{"http://api.test:80/", "GET", "", 15, "api.test"},
		{"http://api.test:443/", "GET", "", 15, "api.test:443"},
		{"https://api.test:443/", "GET", "", 15, "api.test"},
		{"https://api.test:80/", "GET", "", 15, "api.test:80"},
		{"wss://api.test:443/", "GET", "", 15, "api.test"},
		{"ws://api.test:8080/", "GET", "", 15, "api.test:8080"},
		{"api.test:443", "CONNECT", "", 15, "api.test"},
		{"api.test:8443", "CONNECT", "", 15, "api.test:8443"},
		{"http://127.0.0.1:40867/", "GET", "", 15, "127.0.0.1:40867"},
		{"http://api.partner.test:8443/", "GET", "", 15, "api.partn~:8443"},
		{"http://api.partner.test:8443/", "GET", "", 10, "api.~:8443"},
		{"http://api.partner.test:8443/", "GET", "", 6, "api.p~"},
		{"http://api.partner.test/", "GET", "", 10, "api.partn~"},
		{"http://h:123456789/", "GET", "", 8, "h:12345~"},
		{"http://[2001:db8::1]/", "GET", "", 15, "[2001:db8::1]"},
		{"http://[::1]:8080/", "GET", "", 15, "[::1]:8080"},
		{"http://h:/", "GET", "", 15, "h"},
		{"", "", "", 15, "-"},
	} {
		e := traffic.Exchange{URL: c.url, Method: c.method, Service: c.service}
		if got := serviceName(&e, c.w, text{}); got != c.want {
			t.Errorf("%s %s in %d columns: %q, want %q", c.method, c.url, c.w, got, c.want)
		}
	}
}

func TestTotals(t *testing.T) {
	of := func(c control.Counts, short bool) string {
		var out []string
		for _, p := range totalParts(c, short) {
			out = append(out, p.text)
		}
		return strings.Join(out, ", ")
	}
	by := func(n ...uint64) map[string]uint64 {
		out := map[string]uint64{}
		for i, v := range n {
			out[fmt.Sprint("k", i)] = v
		}
		return out
	}
	for _, c := range []struct {
		counts      control.Counts
		long, short string
	}{
		{control.Counts{}, "0 fallbacks", "0 fb"},
		{control.Counts{Fallbacks: by(1)}, "1 fallback", "1 fb"},
		{control.Counts{Fallbacks: by(1000, 2), Errors: by(1)}, "1,002 fallbacks, 1 lane error", "1,002 fb, 1 ERR"},
		{control.Counts{Errors: by(2, 3)}, "0 fallbacks, 5 lane errors", "0 fb, 5 ERR"},
		{control.Counts{Errors: map[string]uint64{"E_GUARD_REJECTED": 7}}, "0 fallbacks", "0 fb"},
	} {
		if l, s := of(c.counts, false), of(c.counts, true); l != c.long || s != c.short {
			t.Errorf("%+v: %q and %q", c.counts, l, s)
		}
	}
	if got := breakdown(map[string]uint64{"a": 1, "b": 20, "c": 1, "none": 0}); got != "22: b 20, a 1, c 1" {
		t.Errorf("breakdown: %q", got)
	}
}

func TestRow(t *testing.T) {
	rows := scene.Exchanges()
	at := rows[0].Start
	long := traffic.Exchange{Start: at, Took: 3 * time.Minute, Front: traffic.FrontGuard, From: "[2001:db8::1]:80", Method: "OPTIONS",
		URL: "http://a-service-with-a-long-name/" + strings.Repeat("x", 100), Service: "a-service-with-a-long-name", Err: "EOF",
		Kind: lane.KindBaseline}
	for _, c := range []struct {
		name string
		e    traffic.Exchange
		want string
	}{
		{"lane", rows[0], "  14:02:11 orders     POST /api/orders              201    42 LANE    10.2.0.9"},
		{"secret", rows[3], "! 14:02:12 inventory  GET  /v1/stock?sku=9&api_key~ 503  2001 BASE~fb me"},
		{"external", rows[4], "  14:02:12 api.partn~ CONN api.partner.test:443     200    77 EXT     me"},
		{"bounced", rows[5], "x 14:02:13 orders     GET  /api/orders              200    <1 GUARD   10.2.0.44"},
		{"fallback", rows[6], "> 14:02:14 users      GET  /v1/users/7              200    31 BASE~fb me"},
		{"too long", long, "! 14:02:11 a-service~ OPT  /xxxxxxxxxxxxxxxxxxxxxx~   -  180s BASE    2001:db8:~"},
		{"nothing", traffic.Exchange{Start: at}, "  14:02:11 -          -                               -    <1 BASE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			for _, cell := range row(&c.e, columns(80, 0), text{}, time.UTC) {
				b.WriteString(cell.text)
			}
			if got := strings.TrimRight(b.String(), " "); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if b.Len() != 80 {
				t.Errorf("%d columns wide", b.Len())
			}
		})
	}
}

func TestBrief(t *testing.T) {
	rows := scene.Exchanges()
	for i, want := range map[int]string{
		0: "  orders POST /api/orders -> 127.0.0.1:8080\n" +
			"  LANE: the tag is this lane's: the local process served it\n" +
			"  201  42 ms  from 10.2.0.9 at the guard  req 311 B  resp 88 B  trace 6c1f0a7e",
		4: "  CONNECT api.partner.test:443 -> 203.0.113.8:443\n" +
			"  EXT: not a service of the registry: passed on without lane headers\n" +
			"  200  77 ms  from me  req 1.9 kB  resp 48.2 kB",
		6: "> users GET /v1/users/7 -> 10.2.0.14:8080 (users-7f9c)\n" +
			"  BASE~fb: no instance of users in lane dev-alice\n" +
			"  200  31 ms  from me  req 0 B  resp 412 B  trace 4bf92f35",
	} {
		var got []string
		for _, c := range brief(&rows[i], text{}, 80) {
			got = append(got, c.text)
		}
		if g := strings.Join(got, "\n"); g != want {
			t.Errorf("row %d: got\n%s\nwant\n%s", i, g, want)
		}
	}
}

func TestTagInOut(t *testing.T) {
	const l = lane.Name("dev-alice")
	for _, c := range []struct {
		name    string
		e       traffic.Exchange
		in, out string
	}{
		{"colored here", traffic.Exchange{Front: traffic.FrontForward, Lane: l, Kind: lane.KindLaneMatch}, "none (this session's lane put on)", "dev-alice"},
		{"came with it", traffic.Exchange{Front: traffic.FrontGuard, Tag: "dev-alice", Lane: l, Guard: traffic.GuardPassed}, "dev-alice", "dev-alice"},
		{"bounced", traffic.Exchange{Front: traffic.FrontGuard, Tag: "dev-bob", Guard: traffic.GuardBounced}, "dev-bob", "dev-bob (unchanged)"},
		{"bounced without", traffic.Exchange{Front: traffic.FrontGuard, Guard: traffic.GuardBounced}, "none", "none"},
		{"rejected", traffic.Exchange{Front: traffic.FrontGuard, Guard: traffic.GuardRejected}, "none", "not sent on"},
		{"external", traffic.Exchange{Front: traffic.FrontForward, Tag: "dev-alice", Kind: lane.KindExternal}, "dev-alice (the caller sent it)", "removed: the host is no service"},
		{"killed", traffic.Exchange{Front: traffic.FrontForward, Tag: "gray", Kind: lane.KindKillSwitch}, "gray (the caller sent it)", "gray (unchanged)"},
		{"error", traffic.Exchange{Front: traffic.FrontForward, Tag: "gray", Kind: lane.KindError}, "gray (the caller sent it)", "not sent"},
		{"untagged", traffic.Exchange{Front: traffic.FrontSidecar, Kind: lane.KindBaseline}, "none", "none"},
	} {
		if got := tagIn(&c.e); got != c.in {
			t.Errorf("%s: in %q, want %q", c.name, got, c.in)
		}
		if got := tagOut(&c.e); got != c.out {
			t.Errorf("%s: out %q, want %q", c.name, got, c.out)
		}
	}
}

func TestProblems(t *testing.T) {
	list := func(change func(*control.Status)) string {
		s := scene.Status()
		change(&s)
		var out []string
		for _, p := range problems(s, scene.Now(), text{}) {
			out = append(out, p.text+p.more)
		}
		return strings.Join(out, "\n")
	}
	for _, c := range []struct {
		name   string
		change func(*control.Status)
		want   string
	}{
		{"none", func(*control.Status) {}, ""},
		{"draining is none", func(s *control.Status) { s.Services[0].State = control.StateDraining }, ""},
		{"closed", func(s *control.Status) { s.Services[0].State = control.StateLocalClosed },
			"!! orders: nothing listens on 127.0.0.1:8080; its lane callers get errors"},
		{"lost", func(s *control.Status) { s.Services[0].State, s.Services[0].Note = control.StateClaimLost, "bob" },
			"!! orders: claim lost, no longer exposed from here (bob)"},
		{"unconfirmed", func(s *control.Status) { s.Services[1].State = control.StateUnconfirmed },
			"!! payments: not confirmed by the registry"},
		{"stale", func(s *control.Status) { s.Registry.State = registryStale },
			"!! registry 127.0.0.1:8500 has no leader; routing by what was last known"},
		{"down", func(s *control.Status) { s.Registry.State, s.Registry.Error = registryUnreachable, "EOF" },
			"!! registry 127.0.0.1:8500 does not answer; routing by what was last known (EOF)"},
		{"a lost relay, and what follows from it", func(s *control.Status) {
			s.Services[0].State, s.Services[0].Note, s.Services[1].State = control.StateUnconfirmed, "the relay is reconnecting", control.StateLocalClosed
			s.Relay = &control.RelayStatus{State: control.RelayReconnecting, Tries: 1}
		}, "!! relay RECONNECTING: the lane's callers get errors until it is back\n   Try 2 is under way.\n   Outbound proxy  still working\n" +
			"!! payments: nothing listens on 127.0.0.1:8081; its lane callers get errors"},
		{"a lost relay, and what it cost", func(s *control.Status) {
			s.Relay = &control.RelayStatus{State: control.RelayReconnecting, Since: scene.Now().Add(-5 * time.Second), Cut: 1, Outgoing: true, Next: scene.Now().Add(3100 * time.Millisecond), Removed: scene.Now().Add(29500 * time.Millisecond), Gone: scene.Now().Add(104 * time.Second)}
		}, "!! relay RECONNECTING 5s: the lane's callers get errors until it is back\n   Trying again in 4s, R at once.\n" +
			"   In Consul       orders, payments: critical in <= 10s, removed in <= 30s (in <= 104s if the relay has died)\n" +
			"   In flight       1 request cut off (502 E_RELAY_LOST if the relay lives)\n   Outbound proxy  calls that go through the relay fail too"},
		{"a relay that is lost for long", func(s *control.Status) {
			s.Services = append(s.Services, control.Service{Name: strings.Repeat("x", 20)})
			s.Relay = &control.RelayStatus{State: control.RelayLost, Removed: scene.Now().Add(-time.Minute), Gone: scene.Now().Add(-time.Second)}
		}, "!! relay LOST: the lane's callers get errors until it is back\n   Trying again now.\n" +
			"   In Consul       3 services: removed by the relay, the claim stands\n   Outbound proxy  still working"},
		{"a lost relay of calls only", func(s *control.Status) {
			s.Services = nil
			s.Relay = &control.RelayStatus{State: control.RelayLost, Removed: scene.Now(), Gone: scene.Now()}
		}, "!! relay LOST: the lane's callers get errors until it is back\n   Trying again now.\n   Outbound proxy  still working"},
		{"a registry that only this machine cannot reach", func(s *control.Status) {
			s.Services[0].State = control.StateUnconfirmed // as it follows
			s.Registry.State, s.Registry.Critical, s.Registry.Removed = registryUnreachable, scene.Now(), scene.Now().Add(90*time.Second)
		}, "!! registry 127.0.0.1:8500 does not answer; routing by what was last known\n" +
			"   Others may see orders, payments critical, gone in <= 90s, if it answers them"},
		{"a relay that is well", func(s *control.Status) {
			s.Services[0].State, s.Relay = control.StateUnconfirmed, &control.RelayStatus{State: control.RelayOK}
		}, "!! orders: not confirmed by the registry"},
		{"several unconfirmed", func(s *control.Status) {
			for i := range s.Services {
				s.Services[i].State, s.Services[i].Note = control.StateUnconfirmed, "permission denied"
			}
		}, "!! orders, payments: not confirmed by the registry (permission denied)"},
		{"several unconfirmed, each in its way", func(s *control.Status) {
			s.Services[0].State, s.Services[0].Note = control.StateUnconfirmed, "permission denied"
			s.Services[1].State = control.StateUnconfirmed
		}, "!! orders, payments: not confirmed by the registry"},
		{"several unproved", func(s *control.Status) {
			s.Services[0].State, s.Services[1].State = control.StateUnproved, control.StateUnproved
		}, "!! orders, payments: no proof in the last 10 s that callers reach them"},
		{"no proof, for that needs the registry", func(s *control.Status) {
			s.Services[0].State, s.Services[1].State, s.Registry.State = control.StateUnproved, control.StateLocalClosed, registryUnreachable
		}, "!! registry 127.0.0.1:8500 does not answer; routing by what was last known\n   No proof meanwhile that callers reach orders\n" +
			"!! payments: nothing listens on 127.0.0.1:8081; its lane callers get errors"},
		{"the cause before what follows", func(s *control.Status) {
			s.Services[0].State, s.Services[1].State = control.StateUnconfirmed, control.StateLocalClosed
			s.Registry.State = registryStale
		}, "!! registry 127.0.0.1:8500 has no leader; routing by what was last known\n" +
			"!! payments: nothing listens on 127.0.0.1:8081; its lane callers get errors\n!! orders: not confirmed by the registry"},
		{"what was taken before all", func(s *control.Status) {
			s.Services[1].State, s.Registry.State = control.StateClaimLost, registryStale
		}, "!! payments: claim lost, no longer exposed from here\n!! registry 127.0.0.1:8500 has no leader; routing by what was last known"},
		{"warning", func(s *control.Status) { s.Warnings = []string{"be careful"} }, " ! be careful"},
	} {
		if got := list(c.change); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestExplainIsSuggestedByTheServicesName(t *testing.T) {
	for _, c := range []struct {
		e    traffic.Exchange
		want string
	}{
		{traffic.Exchange{Front: traffic.FrontGuard, URL: "http://10.2.0.77:40117/api/orders?a=1", Service: "orders"}, "lane explain 'http://orders/api/orders?a=1'"},
		{traffic.Exchange{Front: traffic.FrontGuard, URL: "http://10.2.0.77:40117", Service: "orders"}, "lane explain http://orders"},
		{traffic.Exchange{Front: traffic.FrontForward, URL: "http://orders.test.example/x", Service: "orders"}, "lane explain http://orders.test.example/x"},
	} {
		var got []string
		for _, l := range detailLines(&c.e, tabOverview, about{}, look{commands: true, loc: time.UTC}, 200) {
			got = append(got, l.text)
		}
		if text := strings.Join(got, "\n"); !strings.Contains(text, c.want+"\n") && !strings.HasSuffix(strings.TrimRight(text, "\n "), c.want) {
			t.Errorf("%s: want %q in\n%s", c.e.URL, c.want, text)
		}
	}
}

// The names of the detail's parts are as long as there is room for.
func TestTabLine(t *testing.T) {
	for w, want := range map[int]string{
		80: "1 overview  [2 request]  3 response  4 hops  5 curl",
		45: "1 Overview  [2 Req]  3 Resp  4 Hops  5 Curl",
		43: "1 Overview  [2 Req]  3 Resp  4 Hops  5 Curl",
		42: "1 Overview [2 Req] 3 Resp 4 Hops 5 Curl",
		38: "1 [2] 3 4 5",
		5:  "1 [2~",
	} {
		if got := tabLine(tabRequest, w); got != want {
			t.Errorf("%d columns: %q", w, got)
		}
	}
}

// What the time of an exchange went for is in its overview, if it was sent anywhere.
func TestTimingInTheOverview(t *testing.T) {
	overview := func(e *traffic.Exchange) string {
		var b strings.Builder
		for _, l := range detailLines(e, tabOverview, about{}, look{loc: time.UTC}, 45) {
			b.WriteString(l.text + "\n")
		}
		return b.String()
	}
	rows := scene.Exchanges()
	if got := overview(&rows[6]); !strings.Contains(got, "\nTiming ms dns 0 | conn 1 | ttfb 29 | xfer 1\n") {
		t.Errorf("%s", got)
	}
	if got := overview(&rows[4]); !strings.Contains(got, "\nTiming ms dns 4 | conn 71 | ttfb 1 | xfer 1\n") {
		t.Errorf("%s", got)
	}
	quick := rows[6]
	quick.Took, quick.First, quick.Conn = 1190*time.Microsecond, 1100*time.Microsecond, 0
	if got := overview(&quick); !strings.Contains(got, "\nTiming ms dns 0|conn 0|ttfb 1.1|xfer <0.1\n") {
		t.Errorf("%s", got)
	}
	if got := overview(&traffic.Exchange{Took: time.Second, Code: lane.CodeNoInstances}); strings.Contains(got, "Timing") {
		t.Errorf("what went nowhere has a time on its way:\n%s", got)
	}
}
