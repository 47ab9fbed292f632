package gateway

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lane/pkg/lane"
	"lane/pkg/proxy"
)

// The documents that people are shown are read.
func TestParseRoutesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml\n(routes:.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/gateway.md shows no routes")
	}
	routes, err := ParseRoutes(m[1])
	if err != nil {
		t.Fatal(err)
	}
	if len(routes) != 3 || routes[0].Host != "shop.test.example" || routes[0].Strip != 1 || routes[0].Prefix != "/api/orders" ||
		routes[1].Upstreams[""] != "10.0.0.7:8080" || routes[1].Upstreams["v2"] != "10.0.0.8:8080" || routes[2].Upstreams != nil {
		t.Errorf("%+v", routes)
	}
}

func TestParseRoutesRefuses(t *testing.T) {
	for doc, want := range map[string]string{
		"":                         "empty",
		"routes: []\n":             "no routes",
		"route:\n  - service: a\n": "unknown key route",
		"routes:\n  - service: a\n    prefx: /a\n":                            "line 3",
		"routes:\n  - service: a\n    upstreams: {}\n":                        "without an address",
		"routes:\n  - service: a\n    upstreams: { lane: { v2: \"b:1\" } }\n": "unknown key lane",
		"routes:\n  - service: [a]\n":                                         "line 2",
		"routes: 5\n":                                                         "line 1",
	} {
		if _, err := ParseRoutes([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", doc, err, want)
		}
	}
}

// What is watched from the start: what the registry has, each once, and not without end.
func TestServicesOfRoutes(t *testing.T) {
	routes := []proxy.Route{{Service: "shop"}, {Service: "bff", Upstreams: map[lane.Name]string{"": "127.0.0.1:1"}}, {Service: "stock", Prefix: "/a"}, {Service: "shop", Prefix: "/b"}}
	if got := Services(routes); !slices.Equal(got, []string{"shop", "stock"}) {
		t.Errorf("%q", got)
	}
	for i := range 300 {
		routes = append(routes, proxy.Route{Service: fmt.Sprintf("s%d", i), Prefix: fmt.Sprintf("/%d", i)})
	}
	if got := Services(routes); len(got) != 100 || got[1] != "stock" {
		t.Errorf("%d services", len(got))
	}
}
