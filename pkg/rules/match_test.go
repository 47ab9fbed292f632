package rules

import (
	"fmt"
	"strings"
	"testing"

	"lane/pkg/http1"
)

// matchCases is one condition, a request for which it holds, and one for which
// it does not.
var matchCases = []struct {
	match, hit, miss string
}{
	{`header: {name: X-User, exact: u-1}`, "/ x-user:u-1", "/ x-user:u-11"},
	{`header: {name: X-User, exact: u-1}`, "/ X-USER:\tu-1 ", "/ x-user:U-1"},
	{`header: {name: X-User, exact: u-1}`, "/ x-user:other x-user:u-1", "/ x-users:u-1"},
	{`header: {name: X-User, exact: [u-1, u-2]}`, "/ x-user:u-2", "/ x-user:u-3"},
	{`header: {name: X-User, exact: [u-1, u-2]}`, "/ x-user:u-1", "/ x-user:"},
	{`header: {name: X-User, prefix: dev-}`, "/ x-user:dev-alice", "/ x-user:a-dev-alice"},
	{`header: {name: X-User, regex: "dev[0-9]+"}`, "/ x-user:dev22", "/ x-user:dev22a"},
	{`header: {name: X-User, regex: "dev1|dev2"}`, "/ x-user:dev2", "/ x-user:dev1x"},
	{`header: {name: X-User, regex: "(?i)dev2"}`, "/ x-user:DEV2", "/ x-user:DEV3"},
	{`header: {name: X-User, regex: ".*"}`, "/ x-user:", "/"},
	{`cookie: {name: user, exact: dev2}`, "/ cookie:a=b;user=dev2;c=d", "/ cookie:a=user=dev2"},
	{`cookie: {name: user, exact: dev2}`, `/ cookie:user="dev2"`, "/ cookie:User=dev2"},
	{`cookie: {name: user, exact: dev2}`, "/ cookie:a=b cookie:user=dev2", "/ cookie:user"},
	{`cookie: {name: user, exact: dev2}`, "/ cookie:user=dev1;user=dev2", "/ x-cookie:user=dev2"},
	{`cookie: {name: user, prefix: dev}`, "/ cookie:user=dev2", "/ cookie:user=ndev"},
	{`cookie: {name: user, regex: "d.v2"}`, "/ cookie:user=dev2", "/ cookie:user=dev22"},
	{`query: {name: lane-user, exact: dev 2}`, "/a?x=1&lane-user=dev+2", "/a?x=lane-user=dev+2"},
	{`query: {name: lane-user, exact: dev 2}`, "/a?lane%2Duser=dev%202", "/lane-user=dev%202"},
	{`query: {name: q, exact: "100%"}`, "/?q=100%25", "/?q=100"},
	{`query: {name: q, exact: "100%"}`, "/?q=100%", "/?q=100%%25"},
	{`query: {name: q, prefix: a}`, "/?q=b&q=ab", "/?Q=ab"},
	{`query: {name: q, regex: "a+"}`, "/?q=aaa", "/?q="},
	{`path: {exact: /api/order}`, "/api/order?x=1", "/api/order/"},
	{`path: {exact: /api/order}`, "/api/%6frder", "/api/Order"},
	{`path: {exact: /api/order}`, "http://shop/api/order", "http://shop/api/order/1"},
	{`path: {exact: /}`, "http://shop", "/x"},
	{`path: {exact: /}`, "http://shop?x=/y", "/x?u=http://shop"},
	{`path: {prefix: /api/order}`, "/api/order", "/api/orders"},
	{`path: {prefix: /api/order}`, "/api/order/7", "/api"},
	{`path: {prefix: /api/order/}`, "/api/order/7", "/api/order"},
	{`path: {prefix: /}`, "/anything", "*"},
	{`path: {regex: "/api/(order|cart)/[0-9]+"}`, "/api/cart/12", "/api/cart/12/items"},
	{`path: {regex: "/a.*"}`, "/a%0ab", "/b/a"},
	{`host: {exact: Shop.Example.com}`, "/ @shop.example.com:8080", "/ @shop.example.org"},
	{`host: {exact: shop.example.com}`, "/ @SHOP.example.com.", "/ @a.shop.example.com"},
	{`host: {exact: "[::1]"}`, "/ @[::1]:80", "/ @[::2]:80"},
	{`host: {prefix: dev-}`, "/ @dev-alice.shop", "/ @shop"},
	{`host: {regex: "[a-z]+\\.test"}`, "/ @shop.test:80", "/ @shop.test.org"},
	{`all: [{path: {prefix: /api}}, {header: {name: a, exact: "1"}}]`, "/api a:1", "/api a:2"},
	{`all: [{path: {prefix: /api}}, {header: {name: a, exact: "1"}}]`, "/api/x a:1", "/ a:1"},
	{`{path: {prefix: /api}, header: {name: a, exact: "1"}}`, "/api a:1", "/api"},
	{`any: [{path: {prefix: /api}}, {header: {name: a, exact: "1"}}]`, "/api", "/ a:2"},
	{`any: [{path: {prefix: /api}}, {header: {name: a, exact: "1"}}]`, "/x a:1", "/apis"},
	{`any: [{all: [{header: {name: a, exact: "1"}}, {header: {name: b, exact: "2"}}]}, {cookie: {name: c, exact: "3"}}]`, "/ a:1 b:2", "/ a:1 b:3"},
	{`any: [{all: [{header: {name: a, exact: "1"}}, {header: {name: b, exact: "2"}}]}, {cookie: {name: c, exact: "3"}}]`, "/ a:1 cookie:c=3", "/ c:3"},
}

// requestOf reads "TARGET @HOST NAME:VALUE …".
func requestOf(line string) *Request {
	words := strings.Split(line, " ")
	r := &Request{Entry: "shop", Target: words[0]}
	h := Map{}
	for _, w := range words[1:] {
		if host, ok := strings.CutPrefix(w, "@"); ok {
			r.Host = host
			continue
		}
		name, value, _ := strings.Cut(w, ":")
		h[name] = append(h[name], strings.ReplaceAll(value, ";", "; "))
	}
	r.Headers = h
	return r
}

func TestMatchers(t *testing.T) {
	for _, tc := range matchCases {
		match := tc.match
		if match[0] != '{' {
			match = "{" + match + "}"
		}
		s := mustParse(t, "rules: [{id: r, priority: 1, entry: shop, lane: gray, match: "+match+"}]")
		for _, line := range []string{tc.hit, tc.miss} {
			want := line == tc.hit
			if got := s.Color(requestOf(line), nil); (got.Rule == "r") != want {
				t.Errorf("%s: %s: matches: %v", tc.match, line, !want)
			}
		}
	}
}

// Headers as net/http and as pkg/http1 have them are the same headers.
func TestHeadersOfBothKinds(t *testing.T) {
	var r http1.Request
	head := "GET / HTTP/1.1\r\nHost: shop\r\nX-User: u-1\r\nCookie: a=b\r\nx-USER:  u-2 \r\nX-Other: x\r\n\r\n"
	if err := http1.ParseRequest(head, &r); err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]Headers{
		"head": (*Head)(&r.Head), "map": Map{"X-User": {"u-1", "u-2"}, "Cookie": {"a=b"}},
		"literal": Map{"x-user": {"u-1", "u-2"}}, "spellings": Map{"X-User": {"u-1"}, "x-USER": {"u-2"}, "x-users": {"u-3"}},
	} {
		var got []string
		for n := 0; ; n++ {
			v, ok := h.Line("x-user", n)
			if !ok {
				break
			}
			got = append(got, v)
		}
		if strings.Join(got, ",") != "u-1,u-2" {
			t.Errorf("%s: %q", name, got)
		}
		if v, ok := h.Line("x-absent", 0); ok {
			t.Errorf("%s: %q", name, v)
		}
	}
}

func TestKeys(t *testing.T) {
	s := mustParse(t, `
entry: shop
rules:
  - {id: by-header, priority: 1, percent: 100, key: {header: X-User}, lane: one}
  - {id: by-cookie, priority: 2, percent: 100%, key: {cookie: uid}, lane: two}
  - {id: narrow, priority: 3, percent: 100.0, key: {header: X-Tenant}, lane: three, match: {path: {prefix: /api}}}
`)
	for line, want := range map[string]string{
		"/ x-user:u":                 "one",
		"/ x-user:u x-user:u":        "one",
		"/ x-user:u x-user:":         "one",
		"/ x-user:u x-user:v":        "baseline key_ambiguous:by-header",
		"/ x-user:":                  "baseline",
		"/":                          "baseline",
		"/ cookie:uid=7":             "two",
		"/ cookie:uid=7;uid=8":       "baseline key_ambiguous:by-cookie",
		"/ cookie:uid=;uid=8":        "two",
		"/ x-user:a x-tenant:t":      "one",
		"/api x-tenant:t":            "three",
		"/ x-tenant:t":               "baseline",
		"/api x-tenant:t x-tenant:u": "baseline key_ambiguous:narrow",
	} {
		got := s.Color(requestOf(line), nil)
		if said := strings.TrimSpace(got.Lane() + " " + strings.Join(got.Warnings, " ")); said != want {
			t.Errorf("%s: %s, want %s", line, said, want)
		}
	}
}

// Whitelists are asked in their order, no further than the first yes, and only
// for requests that their condition lets through.
func TestWhitelistsInOrder(t *testing.T) {
	s := mustParse(t, `
entry: shop
rules:
  - {id: second, priority: 2, whitelist: {route: two, header: X-User}, lane: lane-2}
  - {id: first, priority: 1, whitelist: {route: one, cookie: uid}, lane: lane-1, match: {path: {prefix: /api}}}
`)
	for line, want := range map[string]string{
		"/ x-user:u cookie:uid=u":    "lane-2 [two/u]",
		"/api x-user:u cookie:uid=u": "lane-1 [one/u]",
		"/api x-user:u cookie:uid=v": "lane-2 [one/v two/u]",
		"/api x-user:v cookie:uid=v": "baseline [one/v two/v]",
		"/api x-user:u":              "lane-2 [two/u]",
		"/api":                       "baseline []",
	} {
		asked := []string{}
		got := s.Color(requestOf(line), func(route, id string) (bool, error) {
			asked = append(asked, route+"/"+id)
			return id == "u", nil
		})
		if said := fmt.Sprint(got.Lane(), " ", asked); said != want {
			t.Errorf("%s: %s, want %s", line, said, want)
		}
	}
	if got := s.Color(requestOf("/ x-user:u"), nil); got.Lane() != "baseline" || len(got.Warnings) != 1 || got.Warnings[0] != "whitelist_failed:second" {
		t.Errorf("nobody to ask: %+v", got)
	}
}
