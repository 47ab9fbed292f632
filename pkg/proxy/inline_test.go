package proxy

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// uri is the request target as it arrived.
func (b *backend) uri() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		return ""
	}
	return b.last.RequestURI
}

func TestForwardReadsTheTagBesideHeaders(t *testing.T) {
	bob := newBackend(t, "bob", nil)
	for _, tt := range []struct {
		name, url string
		kv        []string
		who, uri  string
		tag       string // as it arrives
		conflict  bool
		status    int
	}{
		{"query", "http://order-service/a?x=%2F&x-lane-tag=dev-bob&y", nil, "bob", "/a?x=%2F&y", "dev-bob", false, 200},
		{"query alone", "http://order-service?x-lane-tag=dev-bob", nil, "bob", "/", "dev-bob", false, 200},
		{"query, empty", "http://order-service/a?x-lane-tag=", nil, "alice", "/a", "dev-alice", false, 200},
		{"query, baseline", "http://order-service/a?x-lane-tag=baseline", nil, "base", "/a", "baseline", false, 200},
		{"query, two values", "http://order-service/a?x-lane-tag=dev-bob&x-lane-tag=dev-alice", nil, "", "", "", false, 400},
		{"query, malformed", "http://order-service/a?x-lane-tag=Dev_Bob", nil, "", "", "", false, 400},
		{"cookie", "http://order-service/a", []string{"Cookie", "a=1; x-lane-tag=dev-bob; b=2"}, "bob", "/a", "dev-bob", false, 200},
		{"cookie, malformed", "http://order-service/a", []string{"Cookie", "x-lane-tag=Dev_Bob"}, "", "", "", false, 400},
		{"cookie over query", "http://order-service/a?x-lane-tag=dev-alice", []string{"Cookie", "x-lane-tag=dev-bob"}, "bob", "/a", "dev-bob", true, 200},
		{"header over cookie", "http://order-service/a", []string{"x-lane-tag", "dev-alice", "Cookie", "x-lane-tag=dev-bob"}, "alice", "/a", "dev-alice", true, 200},
		{"host", "http://dev-bob.order-service.localhost:9999/a", nil, "bob", "/a", "dev-bob", false, 200},
		{"host, upper case", "http://Dev-Bob.Order-Service.LOCALHOST/a", nil, "bob", "/a", "dev-bob", false, 200},
		{"host, malformed", "http://dev_bob.order-service.localhost/a", nil, "", "", "", false, 400},
		{"host, baseline", "http://baseline.order-service.localhost/a", nil, "base", "/a", "baseline", false, 200},
		{"query over host", "http://dev-bob.order-service.localhost/a?x-lane-tag=dev-alice", nil, "alice", "/a", "dev-alice", true, 200},
		{"a session's lane without them", "http://order-service/a", []string{"Cookie", "a=1"}, "alice", "/a", "dev-alice", false, 200},
		{"another lane than there is", "http://order-service/a?x-lane-tag=dev-carol", nil, "base", "/a", "dev-carol", false, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShop(t, nil)
			s.reg.set(service("order-service", instance("o-base", s.base.addr(), ""),
				instance("o-alice", s.alice.addr(), "dev-alice"), instance("o-bob", bob.addr(), "dev-bob")))
			a := s.get(tt.url, tt.kv...)
			if a.status != tt.status || a.header.Get("X-Who") != tt.who {
				t.Fatalf("%d from %q: %s", a.status, a.header.Get("X-Who"), a.body)
			}
			if tt.status == 400 {
				if a.header.Get(lane.HeaderError) != string(lane.CodeTagInvalid) || s.base.hits.Load()+s.alice.hits.Load() != 0 {
					t.Errorf("%v", a.header)
				}
				return
			}
			b := map[string]*backend{"base": s.base, "alice": s.alice, "bob": bob}[tt.who]
			if b.uri() != tt.uri || b.header().Get("X-Lane-Tag") != tt.tag {
				t.Errorf("arrived as %q with %v", b.uri(), b.header())
			}
			if len(tt.kv) > 0 && tt.kv[len(tt.kv)-2] == "Cookie" && b.header().Get("Cookie") != tt.kv[len(tt.kv)-1] {
				t.Errorf("the cookies arrived as %q", b.header().Get("Cookie"))
			}
			warned := slices.ContainsFunc(s.exchange(1).Warnings, func(w string) bool { return strings.HasPrefix(w, "tag_conflict:") })
			if warned != tt.conflict {
				t.Errorf("warnings %v", s.exchange(1).Warnings)
			}
		})
	}
}

// Nothing of the tag leaves for an external host, and all else does as it is.
func TestExternalHostsGetNoTagBesideHeaders(t *testing.T) {
	s := newShop(t, nil)
	a := s.get(s.outside.URL+"/a%2Fb?z=;&x-lane-tag=dev-bob&y=", "Cookie", "a=1; x-lane-tag=dev-bob; b=\"2\"", "Cookie", "x-lane-tag=x")
	if a.status != 200 || a.header.Get("X-Who") != "outside" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := s.outside.uri(); got != "/a%2Fb?z=;&y=" {
		t.Errorf("target %q", got)
	}
	if h := s.outside.header(); len(h["Cookie"]) != 1 || h.Get("Cookie") != `a=1; b="2"` || h.Get("X-Lane-Tag") != "" || h.Get("Baggage") != "" {
		t.Errorf("head %v", h)
	}
}

// A host like any other of this machine's is none of ours.
func TestLabelledHostOfNoService(t *testing.T) {
	s := newShop(t, nil)
	got, _, err := s.tr.Locate(t.Context(), "app.project.localhost:3000")
	if got != "" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if got, _, _ = s.tr.Locate(t.Context(), "x.order-service.localhost"); got != "order-service" {
		t.Errorf("%q", got)
	}
	n, err := NewNames(NamesConfig{Hosts: map[string]string{"api.order-service.localhost": "order-service"}})
	if err != nil {
		t.Fatal(err)
	}
	if l := n.Label("api.order-service.localhost", "order-service"); l != "" {
		t.Errorf("the settings' own host has the label %q", l)
	}
	if l := n.Label("dev-a.order-service.localhost:80", "inventory"); l != "" {
		t.Errorf("another service's host has the label %q", l)
	}
}

func TestForwardPreflight(t *testing.T) {
	s := newShop(t, nil)
	for _, tt := range []struct{ url, cookie, who string }{
		{"http://order-service/a", "", "alice"}, // the session's
		{"http://order-service/a?x-lane-tag=dev-alice", "", "alice"},
		{"http://order-service/a", "x-lane-tag=dev-carol", "base"},
		{"http://dev-carol.order-service.localhost/a", "", "base"},
	} {
		h := http.Header{"Origin": {"http://shop.test"}, "Access-Control-Request-Method": {"PUT"}}
		if tt.cookie != "" {
			h["Cookie"] = []string{tt.cookie}
		}
		if a := do(t, s.client(), "OPTIONS", tt.url, h, nil); a.header.Get("X-Who") != tt.who {
			t.Errorf("%+v: from %q", tt, a.header.Get("X-Who"))
		}
	}
}

func TestGuardReadsTheTagBesideHeaders(t *testing.T) {
	s := newGuarded(t, nil)
	for i, tt := range []struct {
		name, method, path string
		kv                 []string
		in                 bool
		uri                string
	}{
		{"query", "GET", "/a?b=%2F&x-lane-tag=dev-alice", nil, true, "/a?b=%2F"},
		{"query, other lane", "GET", "/a?x-lane-tag=dev-bob", nil, false, "/a?x-lane-tag=dev-bob"},
		{"query, malformed", "GET", "/a?x-lane-tag=DEV-ALICE", nil, false, "/a?x-lane-tag=DEV-ALICE"},
		{"query, two values", "GET", "/a?x-lane-tag=dev-alice&x-lane-tag=dev-bob", nil, false, "/a?x-lane-tag=dev-alice&x-lane-tag=dev-bob"},
		{"query, empty", "GET", "/a?x-lane-tag=", nil, false, "/a?x-lane-tag="},
		{"cookie", "GET", "/a", []string{"Cookie", "x-lane-tag=dev-alice"}, true, "/a"},
		{"cookie, other lane", "GET", "/a", []string{"Cookie", "x-lane-tag=dev-bob"}, false, "/a"},
		{"cookie, malformed", "GET", "/a", []string{"Cookie", "x-lane-tag=dev_alice"}, false, "/a"},
		{"cookie, two values", "GET", "/a", []string{"Cookie", "x-lane-tag=dev-alice; x-lane-tag=dev-bob"}, false, "/a"},
		{"cookie, empty", "GET", "/a", []string{"Cookie", "x-lane-tag="}, false, "/a"},
		{"the header says otherwise", "GET", "/a?x-lane-tag=dev-alice", []string{"x-lane-tag", "baseline"}, false, "/a?x-lane-tag=dev-alice"},
		{"the cookie says otherwise", "GET", "/a?x-lane-tag=dev-alice", []string{"Cookie", "x-lane-tag=dev-bob"}, false, "/a?x-lane-tag=dev-alice"},
		{"host", "GET", "/a", []string{"Host", "dev-alice.order-service.localhost:8080"}, true, "/a"},
		{"host, other lane", "GET", "/a", []string{"Host", "dev-bob.order-service.localhost"}, false, "/a"},
		{"host, other service", "GET", "/a", []string{"Host", "dev-alice.inventory.localhost"}, false, "/a"},
		{"host, malformed", "GET", "/a", []string{"Host", "dev_alice.order-service.localhost"}, false, "/a"},
		{"host, not under localhost", "GET", "/a", []string{"Host", "dev-alice.order-service.localhost.test"}, false, "/a"},
		{"host, but a header says otherwise", "GET", "/a", []string{"Host", "dev-alice.order-service.localhost", "x-lane-tag", "dev-bob"}, false, "/a"},
		{"host, but the query says otherwise", "GET", "/a?x-lane-tag=dev-bob", []string{"Host", "dev-alice.order-service.localhost"}, false, "/a?x-lane-tag=dev-bob"},
		{"preflight", "OPTIONS", "/a?x-lane-tag=dev-alice", []string{"Access-Control-Request-Method", "PUT"}, true, "/a"},
		{"preflight with cookie", "OPTIONS", "/a", []string{"Access-Control-Request-Method", "PUT", "Cookie", "x-lane-tag=dev-alice"}, true, "/a"},
		{"preflight without", "OPTIONS", "/a", []string{"Access-Control-Request-Method", "PUT"}, false, "/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := s.local.hits.Load()
			h := http.Header{}
			for i := 0; i+1 < len(tt.kv); i += 2 {
				h[tt.kv[i]] = append(h[tt.kv[i]], tt.kv[i+1])
			}
			tr := &http.Transport{DisableCompression: true}
			defer tr.CloseIdleConnections()
			a := do(t, &http.Client{Transport: tr}, tt.method, "http://"+s.addr+tt.path, h, nil)
			to, who := s.base, "base"
			if tt.in {
				to, who = s.local, "local"
			}
			if a.status != 200 || a.header.Get("X-Who") != who || (s.local.hits.Load() != before) != tt.in {
				t.Fatalf("%d from %q: %s", a.status, a.header.Get("X-Who"), a.body)
			}
			if to.uri() != tt.uri {
				t.Errorf("arrived as %q", to.uri())
			}
			want := ""
			switch {
			case tt.in: // for what the process calls next
				want = "dev-alice"
			case h["x-lane-tag"] != nil: // bounced as it is
				want = h["x-lane-tag"][0]
			}
			if got := to.header().Get("X-Lane-Tag"); got != want || to.header().Get("Cookie") != h.Get("Cookie") {
				t.Errorf("arrived with %v", to.header())
			}
			if ex := s.exchange(uint64(i + 1)); (ex.Guard == traffic.GuardPassed) != tt.in {
				t.Errorf("exchange %+v", ex)
			}
		})
	}
}

// A browser's WebSocket has nothing but its URL.
func TestUpgradeByQuery(t *testing.T) {
	s := newGuarded(t, nil)
	_, r := raw(t, s.addr, "GET /ws?x-lane-tag=dev-alice HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.Header.Get("X-Who") != "local" || s.local.uri() != "/ws" {
		t.Errorf("%v %q as %q", resp.Header, b, s.local.uri())
	}
}

// What is seen inside CONNECT is read like any other request.
func TestQueryInsideConnect(t *testing.T) {
	s := newShop(t, nil)
	conn, r := raw(t, s.addr, "CONNECT order-service:80 HTTP/1.1\r\nHost: order-service:80\r\n\r\n")
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	if _, err := io.WriteString(conn, "GET /a?b&x-lane-tag=baseline HTTP/1.1\r\nHost: order-service\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if resp, err = http.ReadResponse(r, nil); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Who") != "base" || s.base.uri() != "/a?b" || s.base.header().Get("X-Lane-Tag") != "baseline" {
		t.Errorf("%v as %q with %v", resp.Header, s.base.uri(), s.base.header())
	}
}
