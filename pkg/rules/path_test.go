package rules

import "testing"

func TestReadPath(t *testing.T) {
	for _, tt := range []struct {
		path string
		want Path
	}{
		{"", Path{}}, {"*", Path{Text: "*"}}, {"/", Path{Text: "/"}}, {"/a/b/", Path{Text: "/a/b/"}}, {"/.well-known/a", Path{Text: "/.well-known/a"}},
		{"/a%20b", Path{Text: "/a b"}}, {"/%61", Path{Text: "/a"}}, {"/%", Path{Text: "/%"}}, {"/%2", Path{Text: "/%2"}}, {"/%zz%61", Path{Text: "/%zza"}},
		{"/a%2Fb", Path{Text: "/a%2Fb", Loose: "/a/b"}}, {"/a%2fb%20c", Path{Text: "/a%2Fb c", Loose: "/a/b c"}}, {"%2F", Path{Text: "%2F", Loose: "/"}},
		{"/a%252Fb", Path{Text: "/a%2Fb", Loose: "/a/b"}}, // to who decodes twice
		{`/a\b`, Path{Text: `/a\b`, Loose: "/a/b"}}, {"/a%5Cb", Path{Text: `/a\b`, Loose: "/a/b"}},
		{"//a///b", Path{Text: "//a///b", Loose: "/a/b"}}, {"/a/%2F/b", Path{Text: "/a/%2F/b", Loose: "/a/b"}},
		{"/a/../b", Path{Text: "/a/../b", Dots: true}}, {"/a/..", Path{Text: "/a/..", Dots: true}}, {"/./a", Path{Text: "/./a", Dots: true}},
		{"/%2e%2E/b", Path{Text: "/../b", Dots: true}}, {"/a/.%2e", Path{Text: "/a/..", Dots: true}}, {"/..;a=b/c", Path{Text: "/..;a=b/c", Dots: true}},
		{"/a%2F..%2fb", Path{Text: "/a%2F..%2Fb", Loose: "/a/../b", Dots: true}}, {`/a\..\b`, Path{Text: `/a\..\b`, Loose: "/a/../b", Dots: true}},
		{"/...", Path{Text: "/..."}}, {"/a..b/.c", Path{Text: "/a..b/.c"}}, {"/a/.;/b", Path{Text: "/a/.;/b", Dots: true}},
	} {
		if got := ReadPath(tt.path); got != tt.want {
			t.Errorf("%s is read as %+v, want %+v", tt.path, got, tt.want)
		}
	}
}

// A path that two servers read in two ways has no lane if the rules tell these
// apart, whichever source asks.
func TestColorOfAnAmbiguousPath(t *testing.T) {
	s := mustParse(t, `
trustHeader: [10.0.0.1]
entry: shop
rules:
  - id: listed
    priority: 1
    lane: wl
    match: { path: { prefix: /listed } }
    whitelist: { route: shop, header: x-user }
  - id: admin
    priority: 2
    lane: gray
    match: { path: { exact: /admin } }
  - id: dev
    priority: 3
    lane: dev2
    match: { cookie: { name: user, exact: dev2 } }
`)
	asked := 0
	on := func(_, id string) (bool, error) { asked++; return id == "u-1", nil }
	for _, tt := range []struct {
		target, name, value string
		rule                string
		ambiguous           bool
	}{
		{"/admin", "", "", "admin", false},
		{"//admin", "", "", "", true},
		{"/%2Fadmin?a=b", "", "", "", true},
		{"//other", "", "", "", false},
		{"/other%2F", "Cookie", "user=dev2", "dev", false},
		{"//admin", "Cookie", "user=dev2", "", true},
		{"/a/../admin", "", "", "", true},
		{"/other?a=/../b//c%2F", "", "", "", false},
		{"/listed/a", "X-User", "u-1", "listed", false},
		{"/listed%2Fa", "X-User", "u-1", "", true},
		{"/listed%2Fa", "X-User", "u-2", "", false},
	} {
		got := s.Color(&Request{Entry: "shop", Target: tt.target, Headers: Map{tt.name: {tt.value}}}, on)
		if (got.Lane() == "refused") != tt.ambiguous {
			t.Errorf("%s: shown as %s", tt.target, got.Lane())
		}
		if got.Rule != tt.rule || got.Ambiguous != tt.ambiguous {
			t.Errorf("%s, %s: rule %q, ambiguous %v, want %q, %v", tt.target, tt.value, got.Rule, got.Ambiguous, tt.rule, tt.ambiguous)
		}
	}
	if asked == 0 {
		t.Error("the whitelist was not asked")
	}
}
