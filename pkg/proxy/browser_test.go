package proxy

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lane/pkg/lane"
	"lane/pkg/rules"
)

// edges are fields by which caches before the environment go, as a service may write them;
// kept are some that look like those, and say nothing of that kind.
var (
	edges = []string{"cdn-cache-control", "Cloudflare-CDN-Cache-Control", "vercel-cdn-cache-control", "Netlify-CDN-Cache-Control", "Surrogate-Control", "Edge-Control", "X-Accel-Expires"}
	kept  = []string{"Surrogate-Key", "Cdn-Cache", "X-Accel-Buffering", "X-Cdn-Cache-Control-Note"}
)

// page is a service as pages call it: it lets http://shop.test in, knows of no tag, and
// refuses a preflight whole that asks for what it does not know, as many do.
func page(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h["Cache-Control"], h["Expires"], h["ETag"] = []string{"public", "max-age=3600"}, []string{"Thu, 01 Jan 2099 00:00:00 GMT"}, []string{`"1"`}
		h["X-Kept"] = []string{"yes"}
		for _, name := range slices.Concat(edges, kept) {
			h[name] = []string{"max-age=60"}
		}
		fmt.Fprint(w, "page")
		return
	}
	if r.Header.Get("Origin") != "http://shop.test" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	for _, line := range r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(line, ",") {
			if n := strings.TrimSpace(name); n != "content-type" && n != "authorization" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
		}
	}
	h["Access-Control-Allow-Origin"] = []string{"http://shop.test"}
	h["Access-Control-Allow-Headers"] = []string{"content-type, authorization"}
	w.WriteHeader(http.StatusNoContent)
}

// paged is a service behind every front that answers browsers, by both protocols.
type paged struct {
	*env
	lane, base *backend
	ways       []pagedWay
}

type pagedWay struct {
	name, url string
	client    *http.Client
}

func newPaged(t *testing.T, b Browsers, change func(*Config)) *paged {
	p := &paged{lane: newBackend(t, "lane", page), base: newBackend(t, "base", page)}
	p.env = newEnv(t, func(c *Config) {
		c.Browsers = b
		if change != nil {
			change(c)
		}
	})
	guard := p.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{p.lane.addr()}})
	g, err := NewGateway(p.tr, GatewayConfig{Routes: []Route{{Service: "svc"}},
		Color: func(_ context.Context, r *rules.Request) (rules.Result, rules.Revision) {
			return rules.Result{Tag: r.Tag, Source: rules.SourceHeader}, rules.Revision{}
		}})
	if err != nil {
		t.Fatal(err)
	}
	gateway := p.serve(g.Serve)
	p.reg.set(service("svc", instance("l", p.lane.addr(), "dev-alice"), instance("b", p.base.addr(), "")))
	h1 := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, Timeout: testLimit}
	two := &http.Transport{Protocols: new(http.Protocols), DisableKeepAlives: true, DisableCompression: true}
	two.Protocols.SetUnencryptedHTTP2(true)
	h2 := &http.Client{Transport: two, Timeout: testLimit}
	p.ways = []pagedWay{
		{"proxy", "http://svc/", p.client()},
		{"guard", "http://" + guard + "/", h1}, {"guard, HTTP/2", "http://" + guard + "/", h2},
		{"gateway", "http://" + gateway + "/", h1}, {"gateway, HTTP/2", "http://" + gateway + "/", h2},
	}
	return p
}

// arrived is what either side was sent last, for a field.
func (p *paged) arrived(t *testing.T, who, field string) []string {
	t.Helper()
	for _, b := range []*backend{p.lane, p.base} {
		if b.name == who {
			return b.header()[field]
		}
	}
	t.Fatalf("nobody of ours has answered: %q", who)
	return nil
}

// A page may send the tag where the service lets the page in, whatever the service knows
// of the tag; and it gets no more than that.
func TestPreflightAllowsTheTag(t *testing.T) {
	preset, err := lane.Preset("mse")
	if err != nil {
		t.Fatal(err)
	}
	p := newPaged(t, Browsers{AllowTag: true}, func(c *Config) { c.Carriers = &preset })
	const theirs = "content-type, authorization"
	tests := []struct {
		name   string
		origin string
		asks   string
		status int
		allows []string
		sees   []string // what the service is asked for
	}{
		{"the tag beside another", "http://shop.test", "content-type,x-lane-tag", 204, []string{theirs, "x-lane-tag"}, []string{"content-type"}},
		{"the tag alone", "http://shop.test", "x-lane-tag", 204, []string{theirs, "x-lane-tag"}, nil},
		{"any case, blanks, the preset's too", "http://shop.test", "X-Lane-Tag , authorization,  X-Mse-Tag", 204,
			[]string{theirs, "x-lane-tag, x-mse-tag"}, []string{"authorization"}},
		{"no tag", "http://shop.test", "authorization,  content-type", 204, []string{theirs}, []string{"authorization,  content-type"}},
		{"nothing", "http://shop.test", "", 204, []string{theirs}, nil},
		{"another one of ours", "http://shop.test", "x-lane-hops", 403, nil, []string{"x-lane-hops"}},
		{"what the service does not know", "http://shop.test", "x-lane-tag,x-other", 403, nil, []string{"x-other"}},
		{"a page that it does not let in", "http://evil.test", "x-lane-tag", 403, nil, nil},
	}
	for _, way := range p.ways {
		for _, tt := range tests {
			t.Run(way.name+"/"+tt.name, func(t *testing.T) {
				h := http.Header{"Origin": {tt.origin}, "Access-Control-Request-Method": {"POST"}}
				if tt.asks != "" {
					h["Access-Control-Request-Headers"] = []string{tt.asks}
				}
				a := do(t, way.client, "OPTIONS", way.url, h, nil)
				if a.status != tt.status || !slices.Equal(a.header["Access-Control-Allow-Headers"], tt.allows) {
					t.Errorf("%d, allows %q", a.status, a.header["Access-Control-Allow-Headers"])
				}
				if got := p.arrived(t, a.header.Get("X-Who"), "Access-Control-Request-Headers"); !slices.Equal(got, tt.sees) {
					t.Errorf("the service was asked for %q", got)
				}
			})
		}
		t.Run(way.name+"/no preflight", func(t *testing.T) {
			for method, h := range map[string]http.Header{
				"OPTIONS": {"Origin": {"http://shop.test"}, "Access-Control-Request-Headers": {"x-lane-tag"}},
				"GET": {"Origin": {"http://shop.test"}, "Access-Control-Request-Method": {"POST"},
					"Access-Control-Request-Headers": {"x-lane-tag"}},
			} {
				a := do(t, way.client, method, way.url, h, nil)
				if got := p.arrived(t, a.header.Get("X-Who"), "Access-Control-Request-Headers"); !slices.Equal(got, []string{"x-lane-tag"}) {
					t.Errorf("%s: the service was asked for %q", method, got)
				}
				if got := a.header["Access-Control-Allow-Headers"]; got != nil {
					t.Errorf("%s: allows %q", method, got)
				}
			}
		})
	}
}

// Unless it is asked for, a preflight is between the page and the service, and so is one
// to a host that is no service.
func TestPreflightIsLeftAlone(t *testing.T) {
	h := http.Header{"Origin": {"http://shop.test"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type,x-lane-tag"}}
	off := newPaged(t, Browsers{}, nil)
	for _, way := range off.ways {
		a := do(t, way.client, "OPTIONS", way.url, h, nil)
		got := off.arrived(t, a.header.Get("X-Who"), "Access-Control-Request-Headers")
		if a.status != 403 || a.header["Access-Control-Allow-Headers"] != nil || !slices.Equal(got, []string{"content-type,x-lane-tag"}) {
			t.Errorf("%s: %d, allows %q, asked for %q", way.name, a.status, a.header["Access-Control-Allow-Headers"], got)
		}
	}
	on := newPaged(t, Browsers{AllowTag: true, NoStore: NoStoreAll}, nil)
	outside := newBackend(t, "outside", page)
	if a := do(t, on.client(), "OPTIONS", outside.URL+"/", h, nil); a.status != 403 || !slices.Equal(outside.header()["Access-Control-Request-Headers"], h["Access-Control-Request-Headers"]) {
		t.Errorf("outside: %d, asked for %q", a.status, outside.header()["Access-Control-Request-Headers"])
	}
	if a := do(t, on.client(), "GET", outside.URL+"/", nil, nil); a.header.Get("Cache-Control") != "public" {
		t.Errorf("outside: %v", a.header)
	}
}

// What was asked for stays with a request that is tried again at another instance.
func TestPreflightAtTheSecondInstance(t *testing.T) {
	p := newPaged(t, Browsers{AllowTag: true}, nil)
	p.reg.set(service("svc", instance("gone", closedAddr(t), "dev-alice"), instance("l", p.lane.addr(), "dev-alice")))
	h := http.Header{"Origin": {"http://shop.test"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type,x-lane-tag"}}
	tried := false
	for range 4 { // whichever is first
		a := do(t, p.client(), "OPTIONS", "http://svc/", h, nil)
		if got := p.arrived(t, a.header.Get("X-Who"), "Access-Control-Request-Headers"); a.status != 204 || !slices.Equal(got, []string{"content-type"}) {
			t.Fatalf("%d, asked for %q", a.status, got)
		}
	}
	for seq := range uint64(4) {
		tried = tried || p.exchange(seq+1).Tries == 2
	}
	if !tried {
		t.Error("no request was tried twice")
	}
}

// No copy of an answer is kept: of those of a lane, or of all. All else of it stays.
func TestNoStore(t *testing.T) {
	for _, of := range []NoStore{"", NoStoreOff, NoStoreLane, NoStoreAll} {
		p := newPaged(t, Browsers{NoStore: of}, nil)
		for _, way := range p.ways {
			for _, tag := range []string{"dev-alice", "baseline"} {
				a := do(t, way.client, "GET", way.url, http.Header{"X-Lane-Tag": {tag}}, nil)
				who := map[string]string{"dev-alice": "lane", "baseline": "base"}[tag]
				if a.status != 200 || a.body != "page" || a.header.Get("X-Who") != who || a.header.Get("Etag") != `"1"` || a.header.Get("X-Kept") != "yes" {
					t.Errorf("%s, %s, %q: %d %q %v", way.name, tag, of, a.status, a.body, a.header)
				}
				want, expires, edge := []string{"public", "max-age=3600"}, []string{"Thu, 01 Jan 2099 00:00:00 GMT"}, []string{"max-age=60"}
				if of == NoStoreAll || of == NoStoreLane && tag == "dev-alice" {
					want, expires, edge = []string{"no-store"}, nil, nil
				}
				if h := a.header; !slices.Equal(h["Cache-Control"], want) || !slices.Equal(h["Expires"], expires) {
					t.Errorf("%s, %s, %q: %q, %q", way.name, tag, of, h["Cache-Control"], h["Expires"])
				}
				for _, name := range edges {
					if got := a.header.Values(name); !slices.Equal(got, edge) {
						t.Errorf("%s, %s, %q: %s: %q, want %q", way.name, tag, of, name, got, edge)
					}
				}
				for _, name := range kept {
					if got := a.header.Get(name); got != "max-age=60" {
						t.Errorf("%s, %s, %q: %s: %q is not passed on", way.name, tag, of, name, got)
					}
				}
			}
		}
	}
}
