package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/rules"
)

// entrance is a gateway before the shop, colored by a document.
type entrance struct {
	*shop
	gateway string
	tr      *Transport // the gateway's own
}

func newEntrance(t *testing.T, doc string, list ...Route) *entrance {
	t.Helper()
	return newEntranceWith(t, doc, nil, list...)
}

func newEntranceWith(t *testing.T, doc string, change func(*Config, *GatewayConfig), list ...Route) *entrance {
	t.Helper()
	set, err := rules.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, nil)
	if len(list) == 0 {
		list = []Route{{Service: "order-service"}}
	}
	policy := lane.DefaultPolicy()
	router, err := lane.NewRouter(policy)
	if err != nil {
		t.Fatal(err)
	}
	cfg := GatewayConfig{Routes: list, Drain: 2 * time.Second,
		Color: func(_ context.Context, r *rules.Request) (rules.Result, rules.Revision) {
			return set.Color(r, nil), rules.Revision{Rev: "42"}
		}}
	engine := Config{Registry: s.reg, Router: router, Log: s.log, FirstAnswer: 200 * time.Millisecond, DialTimeout: testLimit}
	if change != nil {
		change(&engine, &cfg)
	}
	tr, err := NewTransport(engine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	g, err := NewGateway(tr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &entrance{s, s.serve(g.Serve), tr}
}

// over asks with HTTP/1.1 or HTTP/2.
func (e *entrance) over(way, path string, kv ...string) answer {
	e.t.Helper()
	if way != "HTTP/2" {
		return e.ask("GET", path, kv...)
	}
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h[kv[i]] = append(h[kv[i]], kv[i+1])
	}
	return h2Get(e.t, e.gateway, path, h)
}

func (e *entrance) ask(method, path string, kv ...string) answer {
	e.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h[kv[i]] = append(h[kv[i]], kv[i+1])
	}
	tr := &http.Transport{DisableKeepAlives: true}
	return do(e.t, &http.Client{Transport: tr, Timeout: testLimit}, method, "http://"+e.gateway+path, h, nil)
}

const entryRules = `
trustHeader: [127.0.0.0/8]
identity:
  headers: [X-User-Id]
entry: order-service
rules:
  - id: by-cookie
    priority: 10
    match:
      cookie: { name: user, exact: dev2 }
    lane: dev-alice
  - id: by-path
    priority: 20
    match:
      path: { prefix: /beta/ }
    lane: dev-alice
  - id: by-user
    priority: 30
    match:
      header: { name: X-User-Id, exact: u-1 }
    lane: dev-alice
`

// Every way in: the rules color, the decision routes, and the head says both.
func TestGatewayColors(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		header     []string
		who        string
		decision   string
		tag        string // at the server
		warning    string
	}{
		{"no rule", "/a", nil, "base", "BASELINE", "baseline", ""},
		{"a cookie", "/a", []string{"Cookie", "user=dev2"}, "alice", "LANE_MATCH", "dev-alice", ""},
		{"another cookie", "/a", []string{"Cookie", "user=dev3"}, "base", "BASELINE", "baseline", ""},
		{"a path", "/beta/a", nil, "alice", "LANE_MATCH", "dev-alice", ""},
		{"a trusted tag", "/a", []string{"x-lane-tag", "dev-alice"}, "alice", "LANE_MATCH", "dev-alice", ""},
		{"a trusted wish for the baseline", "/beta/a", []string{"x-lane-tag", "baseline"}, "base", "BASELINE", "baseline", ""},
		{"a lane that is not there", "/a", []string{"x-lane-tag", "dev-bob"}, "base", "FALLBACK_BASELINE", "dev-bob", ""},
		{"an invalid tag", "/beta/a", []string{"x-lane-tag", "Not A Lane"}, "alice", "LANE_MATCH", "dev-alice", "tag_rejected:invalid"},
		{"an identity of the client's own", "/a", []string{"X-User-Id", "u-1"}, "base", "BASELINE", "baseline", ""},
	} {
		for _, way := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				e := newEntrance(t, entryRules)
				var a answer
				if way == "HTTP/2" {
					h := http.Header{}
					for i := 0; i+1 < len(tt.header); i += 2 {
						h[tt.header[i]] = append(h[tt.header[i]], tt.header[i+1])
					}
					a = h2Get(t, e.gateway, tt.path, h)
				} else {
					a = e.ask("GET", tt.path, tt.header...)
				}
				if a.status != 200 || !strings.HasPrefix(a.header.Get(lane.HeaderDecision), tt.decision) ||
					!strings.Contains(a.header.Get(lane.HeaderDecision), "rev=42") || a.header.Get(lane.HeaderRuleRev) != "42" {
					t.Errorf("%d %v", a.status, a.header)
				}
				if a.header.Get("X-Who") != tt.who {
					t.Errorf("served by %s, want %s", a.header.Get("X-Who"), tt.who)
				}
				if w := a.header.Get(lane.HeaderWarning); w != tt.warning {
					t.Errorf("warning %q, want %q", w, tt.warning)
				}
				b := e.base
				if tt.who == "alice" {
					b = e.alice
				}
				h := b.header()
				if got := h.Get("X-Lane-Tag"); got != tt.tag || len(h["X-Lane-Tag"]) != 1 {
					t.Errorf("arrived with %v, want %s", h["X-Lane-Tag"], tt.tag)
				}
				if h.Get("X-User-Id") != "" {
					t.Error("the client's own identity arrived")
				}
				if ex := e.exchange(1); ex.RuleRev != "42" || ex.Service != "order-service" || ex.Front != "gateway" {
					t.Errorf("recorded %+v", ex)
				}
			})
		}
	}
}

func h2Get(t testing.TB, addr, path string, h http.Header) answer {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return do(t, &http.Client{Transport: tr, Timeout: testLimit}, "GET", "http://"+addr+path, h, nil)
}

// Who is not trusted chooses no lane, by no carrier, and is told.
func TestGatewayDistrusts(t *testing.T) {
	doc := strings.Replace(entryRules, "trustHeader: [127.0.0.0/8]", "trustHeader: false", 1)
	for _, kv := range [][]string{
		{"x-lane-tag", "dev-alice"}, {"X-Lane-Tag", "dev-alice"}, {"baggage", "k=v,lane=dev-alice"}, {"Cookie", "x-lane-tag=dev-alice"},
	} {
		e := newEntrance(t, doc)
		a := e.ask("GET", "/a", kv...)
		if a.header.Get("X-Who") != "base" || a.header.Get(lane.HeaderWarning) != "tag_rejected:untrusted" {
			t.Errorf("%v: %v", kv, a.header)
		}
		h := e.base.header()
		if h.Get("X-Lane-Tag") != "baseline" || strings.Contains(h.Get("Baggage"), "dev-alice") {
			t.Errorf("%v arrived as %v", kv, h)
		}
		if kv[0] == "baggage" && !strings.HasPrefix(h.Get("Baggage"), "k=v") {
			t.Errorf("foreign baggage: %q", h.Get("Baggage"))
		}
		if n, d := e.tr.Counts().Total(metricRejected), e.shop.tr.Counts().Total(metricRejected); n != 1 || d != 0 {
			t.Errorf("%d are counted, and %d by the developer's proxy", n, d)
		}
	}
	e := newEntrance(t, doc)
	if a := e.ask("GET", "/a?x-lane-tag=dev-alice&b=c"); a.header.Get("X-Who") != "base" {
		t.Errorf("by query: %v", a.header)
	}
	if got := e.base.last.URL.RawQuery; got != "b=c" {
		t.Errorf("query %q arrived", got)
	}
}

func TestGatewayRefuses(t *testing.T) {
	e := newEntrance(t, "invalid: reject\n"+entryRules, Route{Host: "shop.test", Prefix: "/api", Service: "order-service"})
	for _, tt := range []struct {
		host, path, tag string
		status          int
		code            lane.Code
	}{
		{"shop.test", "/apis", "", 404, CodeNoRoute},
		{"other.test", "/api/a", "", 404, CodeNoRoute},
		{"shop.test", "/api/a", "Not A Lane", 400, lane.CodeTagInvalid},
		{"shop.test", "/api/a", "", 200, ""},
		{"SHOP.test:8080", "/api", "", 200, ""},
	} {
		h := []string{"Host", tt.host}
		if tt.tag != "" {
			h = append(h, "x-lane-tag", tt.tag)
		}
		a := e.ask("GET", tt.path, h...)
		if a.status != tt.status || a.header.Get(lane.HeaderError) != string(tt.code) {
			t.Errorf("%+v: %d %v %s", tt, a.status, a.header, a.body)
		}
	}
	if n := e.base.hits.Load(); n != 2 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestGatewayRoutes(t *testing.T) {
	v2 := newBackend(t, "v2", nil)
	outside := newBackend(t, "v1", nil)
	e := newEntrance(t, "trustHeader: true\nrules: []\n",
		Route{Service: "inventory"},
		Route{Prefix: "/api/orders", Service: "order-service", Strip: 2},
		Route{Prefix: "/api/orders/raw", Service: "order-service"},
		Route{Host: "*.bff.test", Service: "buyer-bff", Prefix: "/api", Strip: 1, Upstreams: map[lane.Name]string{"": outside.addr(), "v2": v2.addr()}},
	)
	for _, tt := range []struct{ host, target, tag, who, arrives string }{
		{"any", "/a", "", "inventory", "/a"},
		{"any", "/api/orders/42?b=%2Fc", "", "base", "/42?b=%2Fc"},
		{"any", "/api/orders", "", "base", "/"},
		{"any", "/api/orders?x", "", "base", "/?x"},
		{"any", "/api/orders/raw/1", "", "base", "/api/orders/raw/1"},
		{"any", "/api/ordersx", "", "inventory", "/api/ordersx"},
		{"a.bff.test", "/api/b%2Fuyer//x", "", "v1", "/b%2Fuyer//x"},
		{"a.bff.test", "/api/buyer", "v2", "v2", "/buyer"},
		{"a.bff.test", "/api/buyer", "v3", "v1", "/buyer"},
		{"bff.test", "/api/buyer", "", "inventory", "/api/buyer"},
	} {
		h := ""
		if tt.tag != "" {
			h = "x-lane-tag: " + tt.tag + "\r\n"
		}
		_, br := raw(t, e.gateway, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", tt.target, tt.host, h))
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		who := resp.Header.Get("X-Who")
		b := map[string]*backend{"inventory": e.inventory, "base": e.base, "v1": outside, "v2": v2}[who]
		if who != tt.who || b.last.RequestURI != tt.arrives {
			t.Errorf("%+v: %s got it (%d %v)", tt, who, resp.StatusCode, resp.Header)
			if b != nil {
				t.Errorf("as %s", b.last.RequestURI)
			}
		}
	}
}

// OPTIONS * is about a server as a whole: it goes where everything of a host goes.
func TestGatewayOptionsStar(t *testing.T) {
	got := make(chan string, 1)
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		head := readText(br)
		got <- head[:strings.IndexByte(head+"\r", '\r')]
		fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	e := newEntrance(t, "rules: []\n",
		Route{Service: "all", Upstreams: map[lane.Name]string{"": origin}},
		Route{Host: "part.test", Prefix: "/api", Service: "order-service"},
		Route{Host: "shop.test", Prefix: "/api", Service: "order-service"})
	_, br := raw(t, e.gateway, "OPTIONS * HTTP/1.1\r\nHost: shop.test\r\n\r\n")
	if a := response(t, br, "OPTIONS"); a.status != 204 {
		t.Errorf("%+v", a)
	}
	if line := <-got; line != "OPTIONS * HTTP/1.1" {
		t.Errorf("asked %q", line)
	}
	e = newEntrance(t, "rules: []\n", Route{Host: "shop.test", Prefix: "/api", Service: "order-service"})
	_, br = raw(t, e.gateway, "OPTIONS * HTTP/1.1\r\nHost: shop.test\r\n\r\n")
	if a := response(t, br, "OPTIONS"); a.status != 404 || !strings.Contains(a.body, "no route for shop.test as a whole (OPTIONS *)") {
		t.Errorf("%+v", a)
	}
}

func TestRoutesAreChecked(t *testing.T) {
	for _, r := range []Route{
		{}, {Service: "A B"}, {Service: "a", Prefix: "api"}, {Service: "a", Prefix: "/api", Strip: 2}, {Service: "a", Strip: -1},
		{Service: "a", Host: "a.*.b"}, {Service: "a", Upstreams: map[lane.Name]string{"": "http://b"}}, {Service: "a", Upstreams: map[lane.Name]string{"No": "b:1"}},
	} {
		if _, err := newRoutes([]Route{r}); err == nil {
			t.Errorf("%+v is taken", r)
		}
	}
}

// What a client may not say it says in no other place either: under another
// spelling, or behind the body.
func TestGatewayStripsEverySpelling(t *testing.T) {
	e := newEntrance(t, "emitCanaryHeader: X-Canary\n"+entryRules)
	_, br := raw(t, e.gateway, "POST /beta/a HTTP/1.1\r\nHost: shop\r\nX_User_Id: u-1\r\nX-USER-ID: u-1\r\nx-canary: no\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"+
		"1\r\na\r\n0\r\nX-User-Id: u-1\r\nx-canary: true\r\nX-Sum: 1\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	h := e.alice.header()
	if h == nil || h.Get("X-User-Id") != "" || h["X_user_id"] != nil || strings.Join(h["X-Canary"], ",") != "true" {
		t.Errorf("arrived with %v", h)
	}
	e.alice.mu.Lock()
	defer e.alice.mu.Unlock()
	if got := e.alice.last.Trailer; got.Get("X-User-Id") != "" || got.Get("X-Canary") != "" {
		t.Errorf("trailers %v", got)
	}
}
