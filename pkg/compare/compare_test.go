package compare

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func words(d []Difference) []string {
	var out []string
	for _, x := range d {
		out = append(out, x.Where+": "+x.Old+" > "+x.New)
	}
	return out
}

func TestDiff(t *testing.T) {
	json := func(s string) Answer { return Answer{Status: 200, Body: []byte(s)} }
	for _, c := range []struct {
		name     string
		old, new Answer
		ignore   []string
		want     []string
	}{
		{"same", json(`{"a":1}`), json(`{"a":1}`), nil, nil},
		{"spelling of the same", json(`{"a":1,"b":[1,2]}`), json("{\"b\": [1, 2],\n \"a\": 1}"), nil, nil},
		{"numbers are as they are written", json(`[12345678901234567890]`), json(`[12345678901234567891]`), nil,
			[]string{"body [0]: 12345678901234567890 > 12345678901234567891"}},
		{"a value", json(`{"a":{"b":[{"c":1}]}}`), json(`{"a":{"b":[{"c":"1"}]}}`), nil, []string{`body .a.b[0].c: 1 > "1"`}},
		{"missing and more", json(`{"a":1}`), json(`{"b c":null}`), nil, []string{"body .a: 1 > ", `body ["b c"]:  > null`}},
		{"longer list", json(`[1]`), json(`[1,{"x":2}]`), nil, []string{`body [1]:  > {"x":2}`}},
		{"another type", json(`[1]`), json(`{"x":2}`), nil, []string{`body: [1] > {"x":2}`}},
		{"status", Answer{Status: 200}, Answer{Status: 503}, nil, []string{"status: 200 > 503"}},
		{"no answer", Answer{Err: "EOF"}, Answer{Status: 200, Body: []byte("x")}, nil, []string{"status: no answer: EOF > 200"}},
		{"headers by name", Answer{Header: http.Header{"A": {"1"}, "X-B": {"2", "3"}}}, Answer{Header: http.Header{"a": {"1"}, "x-b": {"2"}, "C": {"4"}}}, nil,
			[]string{"header c:  > 4", "header x-b: 2, 3 > 2"}},
		{"cookies by name", Answer{Header: http.Header{"Set-Cookie": {"a=1; Path=/", "b=2", "gone=1"}}}, Answer{Header: http.Header{"Set-Cookie": {"b=3", "a=1; Path=/"}}}, nil,
			[]string{"header set-cookie b: b=2 > b=3", "header set-cookie gone: gone=1 > "}},
		{"cookies in another order", Answer{Header: http.Header{"Set-Cookie": {"a=1", "b=2"}}}, Answer{Header: http.Header{"set-cookie": {"b=2", "a=1"}}}, nil, nil},
		{"a cookie that is set twice", Answer{Header: http.Header{"Set-Cookie": {"a=1", "a=2"}}}, Answer{Header: http.Header{"Set-Cookie": {"a=1", "a=3"}}}, nil,
			[]string{"header set-cookie a (2): a=2 > a=3"}},
		{"a cookie without a name", Answer{Header: http.Header{"Set-Cookie": {"secret"}}}, Answer{Header: http.Header{"Set-Cookie": {"other"}}}, nil,
			[]string{"header set-cookie: secret > other"}},
		{"one cookie ignored", Answer{Header: http.Header{"Set-Cookie": {"A=1", "b=2"}}}, Answer{Header: http.Header{"Set-Cookie": {"A=2", "b=3"}}}, []string{"header set-cookie a"},
			[]string{"header set-cookie b: b=2 > b=3"}},
		{"all cookies ignored", Answer{Header: http.Header{"Set-Cookie": {"a=1", "b=2"}, "X": {"1"}}}, Answer{}, []string{"header set-cookie"}, []string{"header x: 1 > "}},
		{"a body that is not known", Answer{NoBody: true}, json("x"), []string{"status"}, nil},
		{"text by line", json("a\nb\nc"), json("a\nB\nc\nd"), nil, []string{"body line 2: b > B", "body line 4:  > d"}},
		{"one line", json("a"), json("b"), nil, []string{"body: a > b"}},
		{"a line end", json("a\nb"), json("a\nb\n"), nil, []string{"body line 3:  > (nothing but the line end before it)"}},
		{"empty lines", json("a\n\n\n"), json("a"), nil, []string{"body line 2: (empty) > ", "body line 3: (empty) > ", "body line 4: (nothing but the line end before it) > "}},
		{"an empty header", Answer{Header: http.Header{"X-E": {""}, "X-F": {""}}}, Answer{Header: http.Header{"X-F": {""}, "X-G": {"1"}}}, nil, []string{"header x-e: (empty) > ", "header x-g:  > 1"}},
		{"no text", Answer{Body: []byte("\x89PNG\n\x00\x01\n\n\n")}, Answer{Body: []byte("\x89PNG\n\x00\x02" + strings.Repeat("\n", 20))}, nil,
			[]string{"body: 10 B, from byte 6: 01 0a 0a 0a > 27 B, from byte 6: 02 0a 0a 0a 0a 0a 0a 0a 0a 0a 0a 0a 0a 0a 0a 0a ..."}},
		{"no text, ignored", Answer{Body: []byte("\xff")}, Answer{Body: []byte("\xfe")}, []string{"body"}, nil},
		{"no text and none", Answer{Body: []byte("\xff")}, Answer{}, nil, []string{"body: 1 B, from byte 0: ff > "}},
		{"the beginning of it", Answer{Body: []byte("\xff\xfe")}, Answer{Body: []byte("\xff")}, nil, []string{"body: 2 B, from byte 1: fe > 1 B, and no more"}},
		{"another order", json(`{"a":[1,{"x":1,"y":2},1,"z"]}`), json(`{"a":[{"y":2,"x":1},"z",1,1]}`), nil, []string{"body .a order: 0 1 2 3 > 1 3 0 2"}},
		{"another order of all", json(`[1,2]`), json(`[2,1]`), nil, []string{"body order: 0 1 > 1 0"}},
		{"an order that is ignored", json(`{"a":[1,2],"b":[1,2],"c":[1,2],"d":[1,2]}`), json(`{"a":[2,1],"b":[2,1],"c":[2,1],"d":[2,1]}`), []string{"body .a", "body .b[*]", "body .c order"}, []string{"body .d order: 0 1 > 1 0"}},
		{"more than another order", json(`[1,2,2]`), json(`[2,1,1]`), nil, []string{"body [0]: 1 > 2", "body [1]: 2 > 1", "body [2]: 2 > 1"}},
		{"printed otherwise", Answer{Body: []byte("a\nx"), Shown: []byte("A\n*")}, Answer{Body: []byte("a\ny"), Shown: []byte("B\n*")}, nil, []string{"body line 1: A > B"}},
		{"printed the same", Answer{Body: []byte("x"), Shown: []byte("*")}, Answer{Body: []byte("y"), Shown: []byte("*")}, nil, []string{"body: (masked, one way) > (masked, another way)"}},
		{"JSON printed otherwise", Answer{Body: []byte(`{"v":["x",{"w":1}],"o":{"p":1},"n":1}`), Shown: []byte(`{"v":"*","o":"*","n":1}`)}, Answer{Body: []byte(`{"v":["y",{"w":1}],"o":{"p":1,"q":2},"n":2}`), Shown: []byte(`{"v":"*","o":"*","n":2}`)}, nil,
			[]string{"body .n: 1 > 2", `body .o.q:  > "*"`, "body .v[0]: (masked, one way) > (masked, another way)"}},
		{"ignored member", json(`{"id":1,"at":2}`), json(`{"id":2,"at":3}`), []string{"body .at"}, []string{"body .id: 1 > 2"}},
		{"ignored in every item", json(`{"items":[{"id":1},{"id":2}]}`), json(`{"items":[{"id":3},{"id":4}]}`), []string{"body .items[*].id"}, nil},
		{"what is below goes with it", json(`{"meta":{"a":{"b":1}},"x":1}`), json(`{"meta":{"a":{"b":2}},"x":2}`), []string{"body .meta"}, []string{"body .x: 1 > 2"}},
		{"a longer name stays", json(`{"meta2":1}`), json(`{"meta2":2}`), []string{"body .meta"}, []string{"body .meta2: 1 > 2"}},
		{"all of the body", json(`{"a":1}`), json(`{"a":2}`), []string{"body"}, nil},
		{"brackets and slashes are no pattern", json(`{"a/b":[1],"c":1}`), json(`{"a/b":[2],"c":2}`), []string{`body ["a/b"][0]`}, []string{"body .c: 1 > 2"}},
		{"ignored header, any case", Answer{Header: http.Header{"ETag": {"1"}}}, Answer{Header: http.Header{"ETag": {"2"}}}, []string{"header etag"}, nil},
		{"the usual", Answer{Header: http.Header{"Date": {"1"}, "X-Lane-Decision": {"a"}, "Etag": {"1"}}}, Answer{Header: http.Header{"Date": {"2"}, "Etag": {"2"}}}, Ignored(),
			[]string{"header etag: 1 > 2"}},
	} {
		if got := words(Diff(c.old, c.new, c.ignore)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDiffIsBounded(t *testing.T) {
	a := "[" + strings.Repeat("1,", 50_000) + "1]"
	b := "[" + strings.Repeat("2,", 50_000) + "2]"
	if n := len(Diff(Answer{Body: []byte(a)}, Answer{Body: []byte(b)}, nil)); n != mostDifferences {
		t.Errorf("%d differences", n)
	}
}

func TestCheckIgnore(t *testing.T) {
	for _, p := range append(Ignored(), "status", "body", "body .a[*].b", "header x-*") {
		if err := CheckIgnore(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, p := range []string{"", "header", "date", ".a.b", "Header: x"} {
		if CheckIgnore(p) == nil {
			t.Errorf("%q was taken", p)
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}]}`), []byte(`{"a":[2,{"b":{}}]}`), "body .a[*]")
	f.Add([]byte("a\nb"), []byte("\xff"), "body")
	f.Fuzz(func(t *testing.T, a, b []byte, ignore string) {
		x, y := Answer{Status: 200, Body: a}, Answer{Status: 200, Body: b}
		if d := Diff(x, x, []string{ignore}); len(d) > 0 {
			t.Fatalf("an answer differs from itself: %v", d)
		}
		if len(Diff(x, y, nil)) != len(Diff(y, x, nil)) {
			t.Fatal("it depends on the order")
		}
	})
}
