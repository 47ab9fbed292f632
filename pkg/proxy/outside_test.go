package proxy

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/tracemap"
)

var stranger = strings.Replace(entryRules, "trustHeader: [127.0.0.0/8]", "trustHeader: false", 1)

// The same trace, 4bf92f3577b34da6a3ce929d0e0e4736 where the form can say it.
var namesATrace = [][]string{
	{"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	{"B3", "a3ce929d0e0e4736-e457b5a2e4d86bd1-1"},
	{"X-B3-Traceid", "4bf92f3577b34da6a3ce929d0e0e4736", "X-B3-Spanid", "e457b5a2e4d86bd1", "X-B3-Sampled", "1"},
	{"Uber-Trace-Id", "a3ce929d0e0e4736:deadbef0:0:1"},
	{"Sw8", "1-QS43NC4x-QS43NC4w-1-b3JkZXJz-aW4=-L2E=-cA=="},
	{"X-Datadog-Trace-Id", "11803532876627986230"},
	{"X-Amzn-Trace-Id", "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Sampled=1"},
	{"X-Request-Id", "19603cb9-4729-4b3d-aea1-8eb7b646c3e6"},
}

// A stranger's trace begins at the gateway, in whatever form he names another; what
// somebody who is trusted names goes on as it came.
func TestGatewayBeginsAStrangersTrace(t *testing.T) {
	var sources tracemap.Sources
	for _, way := range []string{"HTTP/1.1", "HTTP/2"} {
		strange, known := newEntrance(t, stranger), newEntrance(t, entryRules)
		for i, kv := range append(namesATrace, nil) {
			var own tracemap.Keys
			sources.Read(pairs(kv).Get, &own)
			a := strange.over(way, "/a", append(kv, "Tracestate", "a=b")...)
			h, ex := strange.base.header(), strange.exchange(uint64(i+1))
			var got tracemap.Keys
			sources.Read(h.Get, &got)
			if got.Len() != 2 || got.ID().String() != ex.TraceID || h.Get("X-Request-Id") == "" || strings.ReplaceAll(h.Get("X-Request-Id"), "-", "") != ex.TraceID {
				t.Errorf("%s, %v: %v arrived, recorded as %s", way, kv, h, ex.TraceID)
			}
			for j := 0; j+1 < len(kv); j += 2 {
				if h.Get(kv[j]) == kv[j+1] {
					t.Errorf("%s: %s arrived", way, kv[j])
				}
			}
			want, warned := "", ""
			if own.Len() > 0 {
				want, warned = own.ID().String(), warnTraceRejected
			}
			if ex.ClientTraceID != want || a.header.Get(lane.HeaderWarning) != warned || h.Get("Tracestate") != "" {
				t.Errorf("%s, %v: the client's is recorded as %q, warned %q, tracestate %q", way, kv, ex.ClientTraceID, a.header.Get(lane.HeaderWarning), h.Get("Tracestate"))
			}

			a = known.over(way, "/a", append(kv, "Tracestate", "a=b")...)
			h, ex = known.base.header(), known.exchange(uint64(i+1))
			for j := 0; j+1 < len(kv); j += 2 {
				if h.Get(kv[j]) != kv[j+1] {
					t.Errorf("%s: %s became %q", way, kv[j], h.Get(kv[j]))
				}
			}
			if kv != nil && ex.TraceID != own.ID().String() || ex.ClientTraceID != "" || a.header.Get(lane.HeaderWarning) != "" || h.Get("Tracestate") != "a=b" {
				t.Errorf("%s, trusted, %v: %s, %q, %v, %v", way, kv, ex.TraceID, ex.ClientTraceID, a.header, h)
			}
			var kept tracemap.Keys
			if sources.Read(h.Get, &kept); kept.ID().String() != ex.TraceID || ex.TraceID == "" {
				t.Errorf("%s, trusted, %v: %v arrived, recorded as %s", way, kv, h, ex.TraceID)
			}
		}
		if n, m := strange.tr.Counts().Total(metricTraceRejected), known.tr.Counts().Total(metricTraceRejected); n != uint64(len(namesATrace)) || m != 0 {
			t.Errorf("%s: %d and %d are counted", way, n, m)
		}
	}
}

// pairs are names and values as a head.
func pairs(kv []string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h.Set(kv[i], kv[i+1])
	}
	return h
}

// Who names the trace of a colored request gets into its lane at a sidecar if he is
// trusted, and else stays where the rules put him.
func TestStrangerStaysOutOfATrace(t *testing.T) {
	for _, kv := range namesATrace {
		for doc, want := range map[string]string{stranger: "next-", entryRules: "next-dev-alice"} {
			c := newCompanion(t, true, kv[0], "traceparent", "x-request-id")
			c.ask(http.DefaultClient, append(kv, "x-lane-tag", "dev-alice")...)
			e := newEntrance(t, doc, Route{Service: "app", Upstreams: map[lane.Name]string{"": c.inbound}})
			a := e.ask("GET", "/", kv...)
			if a.status != 200 || a.header.Get("X-Next") != want {
				t.Errorf("%v: %d, went on to %q, want %q", kv, a.status, a.header.Get("X-Next"), want)
			}
		}
	}
}

// What is ours, and what names a trace, a stranger says in no other place either:
// under another spelling, behind the body, or named by Connection.
func TestStrangerSaysItNowhere(t *testing.T) {
	e := newEntrance(t, stranger)
	_, br := raw(t, e.gateway, "POST /a HTTP/1.1\r\nHost: shop\r\nTRACEPARENT: "+parentA+"\r\nX_Request_Id: mine\r\nx_lane_hops: 9\r\nX-Lane-Hops: 99\r\n"+
		"X-LANE-GUARD: bounced\r\nX-Lane-Rule-Rev: 9\r\nX-Lane-Decision: mine\r\nx-lane-whatever: mine\r\nx-lane-via: "+strings.Repeat("a", 16)+", mine\r\n"+
		"Connection: close, x-request-id\r\nX-Request-Id: mine\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"1\r\na\r\n0\r\nTraceparent: "+parentA+"\r\nX-Lane-Hops: 99\r\nX-B3-TraceId: "+strings.Repeat("a", 16)+"\r\nX-Sum: 1\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	h := e.base.header()
	if resp.StatusCode != 200 || h == nil {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	for name, v := range h {
		if strings.HasPrefix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), ours) && name != "X-Lane-Tag" && name != "X-Lane-Hops" && name != "X-Lane-Via" ||
			strings.Contains(fmt.Sprint(v), "mine") {
			t.Errorf("%s: %s arrived", name, v)
		}
	}
	if h.Get("X-Lane-Hops") != "1" || len(h["X-Lane-Hops"]) != 1 || h.Get("Traceparent") == parentA || len(h["Traceparent"]) != 1 || len(h["X-Request-Id"]) != 1 {
		t.Errorf("arrived with %v", h)
	}
	e.base.mu.Lock()
	defer e.base.mu.Unlock()
	for name := range e.base.last.Trailer {
		if name != "X-Sum" {
			t.Errorf("%s arrived behind the body", name)
		}
	}
}

// A count of hops is a sender's who is trusted, and of the gateway's own requests:
// one that runs in a circle ends, through however many gateways it runs.
func TestGatewayEndsACircle(t *testing.T) {
	if a := newEntrance(t, stranger).ask("GET", "/a", "X-Lane-Hops", "99"); a.status != 200 {
		t.Errorf("a stranger's hops: %d", a.status)
	}
	if a := newEntrance(t, entryRules).ask("GET", "/a", "X-Lane-Hops", "99"); a.status != 508 {
		t.Errorf("hops of somebody trusted: %d", a.status)
	}
	var first, hits atomic.Value
	back := newBackend(t, "back", func(w http.ResponseWriter, r *http.Request) {
		hits.Store(r.Header.Get("X-Lane-Via"))
		httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: first.Load().(string)}).ServeHTTP(w, r)
	})
	second := newEntrance(t, stranger, Route{Service: "b", Upstreams: map[lane.Name]string{"": back.addr()}})
	front := newEntrance(t, stranger, Route{Service: "a", Upstreams: map[lane.Name]string{"": second.gateway}})
	first.Store(front.gateway)
	a := front.ask("GET", "/")
	if a.status != 508 || a.header.Get(lane.HeaderError) != string(lane.CodeLoopDetected) {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if n := back.hits.Load(); n < 2 || n > 16 {
		t.Errorf("%d rounds", n)
	}
	if via, _ := hits.Load().(string); !regexp.MustCompile(`^[0-9a-f]{16}, [0-9a-f]{16}$`).MatchString(via) {
		t.Errorf("via %q", via)
	}
}

func TestViaIsBounded(t *testing.T) {
	g := &Gateway{mark: newMark()}
	var marks []string
	for range 100 {
		marks = append(marks, newMark())
	}
	list, again := g.via(http.Header{keyVia: {strings.Join(marks[:50], ","), "no mark, " + strings.Join(marks[50:], " , ")}})
	if want := strings.Join(append(marks[101-maxVia:], g.mark), ", "); list != want || again {
		t.Errorf("%s, %v, want %s", list, again, want)
	}
	if next, again := g.via(http.Header{keyVia: {list}}); next != list || !again {
		t.Errorf("%s, %v, want %s", next, again, list)
	}
}

// Where the environment knows one header alone, a trace begins in that one.
func TestGatewayBeginsInTheOneHeader(t *testing.T) {
	for _, header := range []string{"X-My-Trace", "b3", "sw8"} {
		for _, doc := range []string{stranger, entryRules} {
			sources, err := tracemap.ParseSources(header)
			if err != nil {
				t.Fatal(err)
			}
			e := newEntranceWith(t, doc, func(c *Config, _ *GatewayConfig) { c.Traces = sources })
			for _, way := range []string{"HTTP/1.1", "HTTP/2"} {
				e.over(way, "/a", "Traceparent", parentA)
				var k tracemap.Keys
				h := e.base.header()
				if sources.Read(h.Get, &k); k.Len() != 1 {
					t.Errorf("%s, %s: %v", header, way, h)
				}
				if kept := h.Get("Traceparent") == parentA; kept != (doc == entryRules) {
					t.Errorf("%s, %s: the traceparent was kept: %v", header, way, kept)
				}
			}
		}
	}
}

// An answer shows instances and addresses to whom they are anything, and the
// decision and the lane to everybody.
func TestExpose(t *testing.T) {
	away := closedAddr(t)
	inside := regexp.MustCompile(`127\.0\.0\.1|o-(base|alice)|instance=|secret`)
	troubled := newBackend(t, "troubled", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(lane.HeaderError, "E_UPSTREAM_CONNECT")
		w.Header().Set("X-Lane-Decision", "LANE_MATCH; instance=secret")
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, `{"code":"E_UPSTREAM_CONNECT","message":"the application takes no connection at 127.0.0.1:1 (secret)"}`)
	})
	list := []Route{{Service: "order-service"},
		{Prefix: "/away", Service: "away", Upstreams: map[lane.Name]string{"": away}},
		{Prefix: "/troubled", Service: "troubled", Upstreams: map[lane.Name]string{"": troubled.addr()}}}
	for _, tt := range []struct {
		expose  Expose
		doc     string
		exposed bool
	}{
		{"", stranger, false}, {ExposeTrusted, stranger, false}, {ExposeAll, stranger, true}, {ExposeNone, stranger, false},
		{"", entryRules, true}, {ExposeTrusted, entryRules, true}, {ExposeAll, entryRules, true}, {ExposeNone, entryRules, false},
	} {
		e := newEntranceWith(t, tt.doc, func(t *Config, c *GatewayConfig) { t.EjectFor, c.Expose = time.Hour, tt.expose }, list...)
		for _, way := range []string{"HTTP/1.1", "HTTP/2"} {
			for _, ask := range []struct {
				path, cookie, decision, code string
				status                       int
				tells                        bool
			}{
				{"/a", "user=dev2", "LANE_MATCH; lane=dev-alice", "", 200, true},
				{"/a", "", "BASELINE", "", 200, true},
				{"/away", "", "ERROR", "E_UPSTREAM_CONNECT", 502, true},
				{"/away", "user=dev3", "ERROR", "E_BASELINE_UNHEALTHY", 503, true}, // it has just refused
				{"/troubled", "", "BASELINE", "E_UPSTREAM_CONNECT", 502, true},
				{"/../a", "", "ERROR", "E_BAD_TARGET", 400, false},
			} {
				if way == "HTTP/2" && ask.path == "/away" && ask.cookie == "" {
					continue // it has been skipped since HTTP/1.1
				}
				a := e.over(way, ask.path, "Cookie", ask.cookie)
				if a.status != ask.status || !strings.HasPrefix(a.header.Get(lane.HeaderDecision), ask.decision) || a.header.Get(lane.HeaderError) != ask.code {
					t.Errorf("%q, %s, %s: %d %v %s", tt.expose, way, ask.path, a.status, a.header, a.body)
				}
				if got := inside.MatchString(fmt.Sprint(a.header) + a.body); got != (ask.tells && tt.exposed) {
					t.Errorf("%q, exposed %v, %s, %s: %v %s", tt.expose, tt.exposed, way, ask.path, a.header, a.body)
				}
				if ask.code != "" && !strings.Contains(a.body, `"code":"`+ask.code+`"`) {
					t.Errorf("%s, %s: %s", way, ask.path, a.body)
				}
			}
		}
	}
	for _, s := range []string{"", "some", "ALL"} {
		if _, err := ParseExpose(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

// What is killed is named.
func TestGatewayNamesWhatIsKilled(t *testing.T) {
	e := newEntrance(t, entryRules)
	e.reg.cat.Store(lane.NewCatalog(lane.Trust{}, nil, lane.Switches{KilledLanes: []lane.Name{"dev-alice"}},
		service("order-service", instance("o-base", e.base.addr(), ""), instance("o-alice", e.alice.addr(), "dev-alice"))))
	for _, kv := range [][]string{{"Cookie", "user=dev2"}, {"x-lane-tag", "dev-alice"}} {
		a := e.ask("GET", "/a", kv...)
		if got, want := a.header.Get(lane.HeaderDecision), "KILL_SWITCH_BASELINE; lane=dev-alice; reason=kill_switch; instance=o-base; rev=42"; got != want {
			t.Errorf("%v: %s, want %s", kv, got, want)
		}
	}
	if ex := e.exchange(1); ex.Lane != "dev-alice" || ex.Kind != lane.KindKillSwitch {
		t.Errorf("recorded %+v", ex)
	}
}

// One reading of a path for routes and rules. Where another one would make a
// difference, and where . or .. is in it, the request goes nowhere.
func TestGatewayReadsAPathOnce(t *testing.T) {
	e := newEntrance(t, `
entry: order-service
rules:
  - id: admin
    priority: 10
    match: { path: { prefix: /shop/admin } }
    lane: dev-alice
  - id: word
    priority: 20
    match: { path: { regex: "/shop/word/[^/]+" } }
    lane: dev-alice
`, Route{Service: "inventory"}, Route{Prefix: "/shop", Service: "order-service"}, Route{Prefix: "/sh%6Fp/raw/", Service: "inventory"})
	for _, tt := range []struct{ path, who string }{ // "": refused
		{"/shop/admin", "alice"}, {"/shop/admin/x", "alice"}, {"/shop/admins", "base"}, {"/shop/a", "base"}, {"/other", "inventory"},
		{"/shop/%61dmin", "alice"}, {"/%73hop/admin", "alice"}, {"/%73hop/%61", "base"}, {"/shopx/admin", "inventory"}, {"/shop/raw/a", "inventory"},
		// an encoded slash makes a difference, or none
		{"/shop%2Fadmin", ""}, {"/shop%2fa", ""}, {"/shop/admin%2Fx", ""}, {"/shop/adm%2Fin", "base"}, {"/shop/admin/a%2Fb", "alice"}, {"/a%2Fb", "inventory"},
		{"/shop/word/a", "alice"}, {"/shop/word/a%2Fb", ""}, {"/shop/word%2Fa", ""}, {"/shop/raw%2Fa", ""}, {"/shop/admin%252Fx", ""}, {"/shop/a%252Fx", "base"},
		// so does an empty segment, and a backslash
		{"//shop/admin", ""}, {"/shop//admin", ""}, {"/shop/admin//x", "alice"}, {"/shop/a//b", "base"}, {"//other", "inventory"},
		{`/shop\admin`, ""}, {"/shop%5Cadmin", ""}, {`/shop/a\b`, "base"},
		// and . and .. always do
		{"/shop/../other", ""}, {"/shop/%2e%2e/other", ""}, {"/shop/.%2E/other", ""}, {"/shop/a/..", ""}, {"/shop/./admin", ""}, {"/shop/%2e/admin", ""},
		{"/other/..%2Fshop/admin", ""}, {"/shop/x%2F..%2Fadmin", ""}, {`/shop/..\admin`, ""}, {"/shop/..%5cadmin", ""}, {"/shop/..;a=b/admin", ""}, {"/other/../other", ""},
		{"/shop/...", "base"}, {"/shop/a..b", "base"}, {"/shop/.well-known", "base"}, {"/shop/a?b=/../c", "base"},
	} {
		_, br := raw(t, e.gateway, "GET "+tt.path+" HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		code := lane.Code(resp.Header.Get(lane.HeaderError))
		if got := resp.Header.Get("X-Who"); got != tt.who || (tt.who == "") != (resp.StatusCode == 400 && code == CodeBadTarget) {
			t.Errorf("%s: %q served it, %d %s, want %q", tt.path, got, resp.StatusCode, code, tt.who)
			continue
		}
		if b := map[string]*backend{"inventory": e.inventory, "base": e.base, "alice": e.alice}[tt.who]; b != nil && b.last.RequestURI != tt.path {
			t.Errorf("%s arrived as %s", tt.path, b.last.RequestURI)
		}
	}
	for _, prefix := range []string{"/a/../b", "/a//b", "/a%2Fb", "/./a"} {
		if err := CheckRoutes([]Route{{Service: "a", Prefix: prefix}}); err == nil {
			t.Errorf("the prefix %s is taken", prefix)
		}
	}
	for host, fits := range map[string]bool{"a.test": true, "[::1]": true, "a.test:80": false, "[::1]:80": false} {
		if err := CheckRoutes([]Route{{Service: "a", Host: host}}); (err == nil) != fits {
			t.Errorf("the host %s: %v", host, err)
		}
	}
}
