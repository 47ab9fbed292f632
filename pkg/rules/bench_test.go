package rules

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"lane/pkg/http1"
)

// manyRules are n rules for single users, tenants and paths, as a large company
// would write them.
func manyRules(tb testing.TB, n int) *Set {
	tb.Helper()
	var b strings.Builder
	b.WriteString("trustHeader: [10.0.0.0/8]\nidentity: {headers: [x-user-id], trust: [10.0.0.0/8]}\nentry: shop\nrules:\n")
	for i := range n {
		match := fmt.Sprintf("{header: {name: X-User-Id, exact: user-%d}}", i)
		switch i % 10 {
		case 7:
			match = fmt.Sprintf("{cookie: {name: tenant, exact: tenant-%d}}", i)
		case 8:
			match = fmt.Sprintf("{query: {name: lane-user, exact: user-%d}}", i)
		case 9:
			match = fmt.Sprintf("{all: [{path: {prefix: /api}}, {header: {name: X-Tenant, exact: [t-%d, t-%d-b]}}]}", i, i)
		}
		fmt.Fprintf(&b, "  - {id: r%d, priority: %d, lane: lane-%d, match: %s}\n", i, i, i, match)
	}
	return mustParse(tb, b.String())
}

const benchHead = "GET /api/orders/42?page=1&size=20 HTTP/1.1\r\nHost: shop.test:8080\r\nUser-Agent: bench\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n" +
	"Cookie: session=abcdef; tenant=nobody; theme=dark\r\nX-User-Id: nobody\r\nX-Tenant: nothing\r\nTraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n"

// benchRequests is one request that no rule wants, as both kinds of headers.
func benchRequests(tb testing.TB) map[string]*Request {
	tb.Helper()
	var r http1.Request
	if err := http1.ParseRequest(benchHead, &r); err != nil {
		tb.Fatal(err)
	}
	m := Map{}
	for _, f := range r.Fields {
		m[f.Name] = append(m[f.Name], f.Value)
	}
	base := Request{Entry: "shop", Host: r.Host, Target: r.Target, Remote: netip.MustParseAddr("10.1.2.3")}
	head, of := base, base
	head.Headers, of.Headers = (*Head)(&r.Head), m
	return map[string]*Request{"head": &head, "map": &of}
}

// A request that no rule wants leaves nothing for the garbage collector.
func TestNoMatchAllocatesNothing(t *testing.T) {
	s := manyRules(t, 1000)
	for name, r := range benchRequests(t) {
		if got := s.Color(r, nil); got.Source != SourceNone {
			t.Fatalf("%+v", got)
		}
		if n := testing.AllocsPerRun(100, func() { s.Color(r, nil) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	// The twin: the same rules do match.
	r := benchRequests(t)["map"]
	r.Headers.(Map)["X-User-Id"] = []string{"user-996"}
	if got := s.Color(r, nil); got.Rule != "r996" {
		t.Errorf("%+v", got)
	}
}

// BenchmarkColor colors a request that no rule wants; "each" is what reading all
// rules costs.
func BenchmarkColor(b *testing.B) {
	for _, n := range []int{10, 1000} {
		s := manyRules(b, n)
		for _, kind := range []string{"head", "map"} {
			r := benchRequests(b)[kind]
			b.Run(fmt.Sprintf("rules=%d/%s/index", n, kind), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.Color(r, nil)
				}
			})
			b.Run(fmt.Sprintf("rules=%d/%s/each", n, kind), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					plain(s, r, nil)
				}
			})
		}
	}
}

// BenchmarkParse loads a thousand rules.
func BenchmarkParse(b *testing.B) {
	var doc strings.Builder
	doc.WriteString("entry: shop\nrules:\n")
	for i := range 1000 {
		fmt.Fprintf(&doc, "  - {id: r%d, priority: %d, lane: lane-%d, match: {header: {name: X-User-Id, exact: user-%d}}}\n", i, i, i, i)
	}
	text := []byte(doc.String())
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
