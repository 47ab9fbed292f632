package lane

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestReadRequest(t *testing.T) {
	own := Carriers{Header: "X-Env", Member: "lane"}
	mse := mustPreset(t, "mse")
	tests := []struct {
		name     string
		c        Carriers
		h        headerMap
		target   string
		kind     TagKind
		lane     Name
		raw      string
		conflict []string
	}{
		{"nothing", DefaultCarriers(), nil, "/", TagNone, "", "", nil},
		{"cookie", DefaultCarriers(), headerMap{"Cookie": {"a=1; x-lane-tag=dev-a; b=2"}}, "/", TagLane, "dev-a", "dev-a", nil},
		{"cookie, quoted", DefaultCarriers(), headerMap{"Cookie": {`x-lane-tag="dev-a"`}}, "/", TagLane, "dev-a", "dev-a", nil},
		{"cookie, second line", DefaultCarriers(), headerMap{"Cookie": {"a=1", "x-lane-tag=dev-a"}}, "/", TagLane, "dev-a", "dev-a", nil},
		{"cookie, the same twice", DefaultCarriers(), headerMap{"Cookie": {"x-lane-tag=dev-a;x-lane-tag=dev-a"}}, "/", TagLane, "dev-a", "dev-a", nil},
		{"cookie, two values", DefaultCarriers(), headerMap{"Cookie": {"x-lane-tag=dev-a; x-lane-tag=dev-b"}}, "/", TagInvalid, "", "dev-a, dev-b", []string{"dev-a", "dev-b"}},
		{"cookie, empty", DefaultCarriers(), headerMap{"Cookie": {"x-lane-tag="}}, "/", TagNone, "", "", nil},
		{"cookie, no value", DefaultCarriers(), headerMap{"Cookie": {"x-lane-tag"}}, "/", TagNone, "", "", nil},
		{"cookie, malformed", DefaultCarriers(), headerMap{"Cookie": {"x-lane-tag=Dev_A"}}, "/", TagInvalid, "", "Dev_A", nil},
		{"cookie, not decoded", DefaultCarriers(), headerMap{"Cookie": {"x-lane-tag=dev%2Da"}}, "/", TagInvalid, "", "dev%2Da", nil},
		{"cookie, a longer name", DefaultCarriers(), headerMap{"Cookie": {"xx-lane-tag=dev-a; x-lane-tags=dev-a"}}, "/", TagNone, "", "", nil},
		{"cookie, names have a case", DefaultCarriers(), headerMap{"Cookie": {"X-Lane-Tag=dev-a"}}, "/", TagNone, "", "", nil},
		{"cookie, in another's value", DefaultCarriers(), headerMap{"Cookie": {"a=x-lane-tag=dev-a"}}, "/", TagNone, "", "", nil},
		{"cookie, baseline", DefaultCarriers(), headerMap{"Cookie": {"x-lane-tag=baseline"}}, "/", TagBaseline, "", "baseline", nil},
		{"cookie of the own header", own, headerMap{"Cookie": {"x-env=dev-a; x-lane-tag=dev-b"}}, "/", TagLane, "dev-a", "dev-a", nil},
		{"no cookie of a preset", mse, headerMap{"Cookie": {"x-mse-tag=dev-a"}}, "/?x-mse-tag=dev-a", TagNone, "", "", nil},

		{"query", DefaultCarriers(), nil, "/a?b=1&x-lane-tag=dev-a", TagLane, "dev-a", "dev-a", nil},
		{"query, encoded", DefaultCarriers(), nil, "/a?x%2dlane-tag=dev%2Da", TagLane, "dev-a", "dev-a", nil},
		{"query, badly encoded", DefaultCarriers(), nil, "/a?x-lane-tag=dev%zz", TagInvalid, "", "dev%zz", nil},
		{"query, the same twice", DefaultCarriers(), nil, "/a?x-lane-tag=dev-a&x-lane-tag=dev-a", TagLane, "dev-a", "dev-a", nil},
		{"query, two values", DefaultCarriers(), nil, "/a?x-lane-tag=dev-a&x-lane-tag=dev-b", TagInvalid, "", "dev-a, dev-b", []string{"dev-a", "dev-b"}},
		{"query, empty", DefaultCarriers(), nil, "/a?x-lane-tag=", TagNone, "", "", nil},
		{"query, no value", DefaultCarriers(), nil, "/a?x-lane-tag", TagNone, "", "", nil},
		{"query, malformed", DefaultCarriers(), nil, "/a?x-lane-tag=Dev", TagInvalid, "", "Dev", nil},
		{"query, in the path", DefaultCarriers(), nil, "/x-lane-tag=dev-a", TagNone, "", "", nil},
		{"query, in another's value", DefaultCarriers(), nil, "/?next=/?x-lane-tag=dev-a", TagNone, "", "", nil},
		{"query, behind a semicolon", DefaultCarriers(), nil, "/?a=1;x-lane-tag=dev-a", TagNone, "", "", nil},
		{"query, names have a case", DefaultCarriers(), nil, "/?X-Lane-Tag=dev-a", TagNone, "", "", nil},
		{"query, a longer name", DefaultCarriers(), nil, "/?x-lane-tags=dev-a&xx-lane-tag=dev-a", TagNone, "", "", nil},

		{"all agree", DefaultCarriers(), headerMap{"X-Lane-Tag": {"dev-a"}, "Cookie": {"x-lane-tag=dev-a"}}, "/?x-lane-tag=dev-a", TagLane, "dev-a", "dev-a", nil},
		{"header over cookie and query", DefaultCarriers(), headerMap{"X-Lane-Tag": {"dev-a"}, "Cookie": {"x-lane-tag=dev-b"}}, "/?x-lane-tag=dev-c", TagLane, "dev-a", "dev-a", []string{"dev-b", "dev-c"}},
		{"baggage over cookie", DefaultCarriers(), headerMap{"Baggage": {"lane=dev-a"}, "Cookie": {"x-lane-tag=dev-b"}}, "/", TagLane, "dev-a", "dev-a", []string{"dev-b"}},
		{"cookie over query", DefaultCarriers(), headerMap{"Cookie": {"x-lane-tag=dev-b"}}, "/?x-lane-tag=dev-c", TagLane, "dev-b", "dev-b", []string{"dev-c"}},
		{"the baseline over a cookie", DefaultCarriers(), headerMap{"X-Lane-Tag": {"baseline"}, "Cookie": {"x-lane-tag=dev-b"}}, "/", TagBaseline, "", "baseline", []string{"dev-b"}},
		{"an empty header says nothing", DefaultCarriers(), headerMap{"X-Lane-Tag": {""}, "Cookie": {"x-lane-tag=dev-b"}}, "/", TagLane, "dev-b", "dev-b", nil},
		{"an invalid header is not passed over", DefaultCarriers(), headerMap{"X-Lane-Tag": {"a_b"}, "Cookie": {"x-lane-tag=dev-b"}}, "/", TagInvalid, "", "a_b", nil},
		{"an invalid cookie is not passed over", DefaultCarriers(), headerMap{"Cookie": {"x-lane-tag=a_b"}}, "/?x-lane-tag=dev-a", TagInvalid, "", "a_b", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := Tag{Kind: tt.kind, Lane: tt.lane, Raw: tt.raw, Conflict: tt.conflict}
			got := tt.c.ReadRequest(tt.h, tt.target)
			got.From, got.Places = "", nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestAConflictSaysWhereEachValueIs(t *testing.T) {
	c := DefaultCarriers()
	c.Aliases = []string{"x-gray"}
	for _, tt := range []struct {
		h      headerMap
		target string
		label  string
		want   []string
	}{
		{headerMap{"X-Lane-Tag": {"dev-a"}, "Baggage": {"lane=dev-b"}}, "/", "", []string{"tag_conflict:dev-b in baggage!=dev-a in x-lane-tag"}},
		{headerMap{"X-Gray": {"dev-a"}, "Cookie": {"x-lane-tag=dev-b"}}, "/?x-lane-tag=dev-c", "dev-d",
			[]string{"tag_conflict:dev-b in cookie!=dev-a in x-gray", "tag_conflict:dev-c in query!=dev-a in x-gray", "tag_conflict:dev-d in host!=dev-a in x-gray"}},
		{headerMap{"X-Lane-Tag": {"dev-a"}, "Baggage": {"lane=dev-a"}}, "/?x-lane-tag=dev-a", "dev-a", nil},
	} {
		tag := c.Join(c.ReadRequest(tt.h, tt.target), tt.label)
		r, err := NewRouter(DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		service := NewService("orders", []Instance{{ID: "a", MetaLane: "dev-a", Health: Passing, Weight: 1}}, nil)
		service.HasSnapshot = true
		d := r.Decide(NewCatalog(Trust{State: Fresh}, nil, Switches{}, service), Request{Service: "orders", Tag: tag})
		if !slices.Equal(d.Warnings, tt.want) {
			t.Errorf("%v: %q, want %q", tt.h, d.Warnings, tt.want)
		}
	}
}

func TestJoinHostLabel(t *testing.T) {
	c := DefaultCarriers()
	for _, tt := range []struct {
		tag, label string
		kind       TagKind
		conflict   []string
	}{
		{"", "dev-a", TagLane, nil},
		{"", "dev_a", TagInvalid, nil},
		{"", "baseline", TagBaseline, nil},
		{"dev-a", "dev-a", TagLane, nil},
		{"dev-a", "dev-b", TagLane, []string{"dev-b"}},
		{"dev_a", "dev-b", TagInvalid, nil},
	} {
		got := c.Join(ParseTag(tt.tag), tt.label)
		if got.Kind != tt.kind || !slices.Equal(got.Conflict, tt.conflict) {
			t.Errorf("%q and %q: %+v", tt.tag, tt.label, got)
		}
	}
}

func TestCutQuery(t *testing.T) {
	c := DefaultCarriers()
	for in, want := range map[string]string{
		"":                                  "",
		"*":                                 "*",
		"/":                                 "/",
		"/?":                                "/?",
		"/?x-lane-tag=dev-a":                "/",
		"/?x-lane-tag":                      "/",
		"/?x-lane-tag=":                     "/",
		"/a?x-lane-tag=dev-a&b=1":           "/a?b=1",
		"/a?b=1&x-lane-tag=dev-a":           "/a?b=1",
		"/a?z=%2F;&x-lane-tag=d&a=&&c==%zz": "/a?z=%2F;&a=&&c==%zz",
		"/a?x-lane-tag=d&x-lane-tag=e":      "/a",
		"/a?x%2Dlane%2dtag=d&b=%2F":         "/a?b=%2F",
		"/a?&x-lane-tag=d":                  "/a?",
		"/a?b=1;x-lane-tag=d":               "/a?b=1;x-lane-tag=d",
		"/a?b=/?x-lane-tag=d":               "/a?b=/?x-lane-tag=d",
		"/x-lane-tag=d":                     "/x-lane-tag=d",
		"/a?x-lane-tags=d":                  "/a?x-lane-tags=d",
		"/a%2Fb//c?q=+%20":                  "/a%2Fb//c?q=+%20",
	} {
		if got := c.CutQuery(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestStripCookie(t *testing.T) {
	c := DefaultCarriers()
	for _, tt := range []struct{ in, want []string }{
		{nil, nil},
		{[]string{"a=1;  b=2 ;"}, []string{"a=1;  b=2 ;"}},
		{[]string{"x-lane-tag=d"}, nil},
		{[]string{"x-lane-tag=d; a=1;b=\"x; y\""}, []string{"a=1;b=\"x; y\""}},
		{[]string{"a=1; x-lane-tag=d"}, []string{"a=1"}},
		{[]string{" a=1;x-lane-tag=d;  b=2"}, []string{" a=1;  b=2"}},
		{[]string{"x-lane-tag", "a=1", "x-lane-tag=e"}, []string{"a=1"}},
		{[]string{"x-lane-tags=d; a=x-lane-tag"}, []string{"x-lane-tags=d; a=x-lane-tag"}},
	} {
		for _, key := range []string{"Cookie", "cookie", "COOKIE"} {
			h := headerMap{"Accept": {"*/*"}}
			if tt.in != nil {
				h[key] = slices.Clone(tt.in)
			}
			c.Strip(h)
			if !slices.Equal(h[key], tt.want) || (tt.want == nil) != (h[key] == nil) || h["Accept"] == nil {
				t.Errorf("%q: got %q, want %q", tt.in, h[key], tt.want)
			}
		}
	}
}

func TestCutHost(t *testing.T) {
	for _, tt := range []struct{ host, label, service string }{
		{"dev-a.orders.localhost", "dev-a", "orders"},
		{"dev_a.orders.localhost", "dev_a", "orders"},
		{"orders.localhost", "", ""},
		{"localhost", "", ""},
		{".orders.localhost", "", ""},
		{"dev-a..localhost", "", ""},
		{"x.dev-a.orders.localhost", "", ""},
		{"dev-a.orders", "", ""},
		{"dev-a.orders.localhost.evil.test", "", ""},
		{"dev-a.orders.notlocalhost", "", ""},
	} {
		label, service, ok := CutHost(tt.host)
		if label != tt.label || service != tt.service || ok != (tt.label != "") {
			t.Errorf("%q: %q %q %v", tt.host, label, service, ok)
		}
	}
}

// Whatever comes, what goes to an external host holds no carrier of ours, other
// bytes stay, and cutting twice is cutting once.
func FuzzInline(f *testing.F) {
	f.Add("a=1; x-lane-tag=dev-a; b", "/a?x-lane-tag=dev-a&b=%2F")
	f.Add(`x-lane-tag="a;b"`, "/?x%2dlane-tag=%zz&;x-lane-tag")
	f.Add("", "*")
	f.Fuzz(func(t *testing.T, cookie, target string) {
		c := DefaultCarriers()
		h := headerMap{"Cookie": {cookie}}
		tag := c.ReadRequest(h, target)
		if tag.Kind == TagLane && !valid(string(tag.Lane)) {
			t.Fatalf("lane %q", tag.Lane)
		}
		cut := c.CutQuery(target)
		if c.CutQuery(cut) != cut {
			t.Fatalf("cut twice: %q", cut)
		}
		if path, _, _ := strings.Cut(target, "?"); !strings.HasPrefix(cut, path) {
			t.Fatalf("%q became %q", target, cut)
		}
		c.Strip(h)
		if tag := c.ReadRequest(h, cut); tag.Kind != TagNone {
			t.Fatalf("%q %q are left with %+v", h, cut, tag)
		}
		rest := func(s, sep string, ours func(string) bool) []string {
			return slices.DeleteFunc(strings.Split(s, sep), ours)
		}
		_, was, _ := strings.Cut(target, "?")
		_, is, _ := strings.Cut(cut, "?")
		ours := func(p string) bool { k, _, _ := strings.Cut(p, "="); return Unescape(k) == "x-lane-tag" }
		if kept := rest(was, "&", ours); strings.Join(kept, "&") != is {
			t.Fatalf("%q became %q", target, cut)
		}
	})
}
