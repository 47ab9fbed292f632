package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestListsAreAligned(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new string
		ignore   []string
		want     []string
	}{
		{"inserted at the front", `[1,2,3]`, `[0,1,2,3]`, nil, []string{"body [0]:  > 0"}},
		{"removed at the front", `{"items":[{"id":1},{"id":2},{"id":3}]}`, `{"items":[{"id":2},{"id":3}]}`, nil, []string{`body .items[0]: {"id":1} > `}},
		{"inserted in the middle and removed at the end", `["a","b","c","d"]`, `["a","x","b","c"]`, nil, []string{`body [1]:  > "x"`, `body [3]: "d" > `}},
		{"a change within an item behind an inserted one", `{"items":[{"id":1,"price":5},{"id":2,"price":6},{"id":3,"price":7}]}`, `{"items":[{"id":0,"price":1},{"id":1,"price":5},{"id":2,"price":9},{"id":3,"price":7}]}`, nil,
			[]string{`body .items[0]:  > {"id":0,"price":1}`, "body .items[2].price: 6 > 9"}},
		{"a change in every item, known by a name", `[{"sku":"a","price":1},{"sku":"b","price":2}]`, `[{"sku":"n","price":0},{"sku":"a","price":3},{"sku":"b","price":4}]`, nil,
			[]string{`body [0]:  > {"price":0,"sku":"n"}`, "body [1].price: 1 > 3", "body [2].price: 2 > 4"}},
		{"of one shape, and known by nothing", `[{"p":1,"q":1},{"p":1,"q":1},"end"]`, `["new",{"p":2,"q":1},{"p":1,"q":1},"end"]`, nil,
			[]string{`body [0]:  > "new"`, "body [1].p: 1 > 2"}},
		{"of another shape", `[{"p":1},"end","z"]`, `["a","b","end","z"]`, nil, []string{`body [0]: {"p":1} > `, `body [0]:  > "a"`, `body [1]:  > "b"`}},
		{"a change in its place", `[1,{"a":1},3]`, `[1,"x",3]`, nil, []string{`body [1]: {"a":1} > "x"`}},
		{"what is ignored does not tell items apart", `[{"id":1,"at":"a"},{"id":2,"at":"b"}]`, `[{"id":0,"at":"c"},{"id":1,"at":"d"},{"id":2,"at":"e"}]`, []string{"body [*].at"},
			[]string{`body [0]:  > {"at":"c","id":0}`}},
		{"nor is it what they are known by", `[{"id":7,"x":1,"y":1},{"id":8,"x":2,"y":1}]`, `[{"id":8,"x":0,"y":0},{"id":9,"x":1,"y":2},{"id":7,"x":2,"y":2}]`, []string{"body [*].id"},
			[]string{`body [0]:  > {"id":8,"x":0,"y":0}`, "body [1].y: 1 > 2", "body [2].y: 1 > 2"}},
		{"another order but for what is ignored", `[{"id":1,"at":"a"},{"id":2,"at":"b"}]`, `[{"id":2,"at":"c"},{"id":1,"at":"d"}]`, []string{"body [*].at"}, []string{"body order: 0 1 > 1 0"}},
		{"inserted, and ignored", `{"a":[1,2]}`, `{"a":[0,1,2]}`, []string{"body .a[*]"}, nil},
		{"lists in lists", `[[1,2],[3,4]]`, `[[0],[1,2],[3,9,4]]`, nil, []string{"body [0]:  > [0]", "body [2][1]:  > 9"}},
		{"lines", "a\nb\nc\n", "x\na\nb\nC\n", nil, []string{"body line 1:  > x", "body line 4: c > C"}},
		{"a line less", "a\nb\nc\n", "a\nc\n", nil, []string{"body line 2: b > "}},
		{"an empty line more", "a\nb", "\na\nb", nil, []string{"body line 1:  > (empty)"}},
		{"a line that becomes empty", "a\nb\nc", "a\n\nc", nil, []string{"body line 2: b > (empty)"}},
		{"an empty line that becomes its word", "a\n\nc", "a\n(empty)\nc", nil, []string{"body line 2:  > (empty)"}},
	} {
		got := Diff(Answer{Body: []byte(c.old)}, Answer{Body: []byte(c.new)}, c.ignore)
		if w := words(got); !slices.Equal(w, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, w, c.want)
		}
		for _, d := range got {
			if d.ByIndex {
				t.Errorf("%s: %s was compared by index", c.name, d.Where)
			}
		}
	}
}

// What is not printed is aligned by what it is, and stays unprinted.
func TestMaskedItemsAreAligned(t *testing.T) {
	old := Answer{Body: []byte(`[{"v":"x","n":1},{"v":"y","n":1}]`), Shown: []byte(`[{"v":"*","n":1},{"v":"*","n":1}]`)}
	now := Answer{Body: []byte(`[{"v":"z","n":2},{"v":"x","n":1},{"v":"y","n":3}]`), Shown: []byte(`[{"v":"*","n":2},{"v":"*","n":1},{"v":"*","n":3}]`)}
	want := []string{`body [0]:  > {"n":2,"v":"*"}`, "body [2].n: 1 > 3"}
	if got := words(Diff(old, now, nil)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The longest common subsequence, by the book.
func longest(x, y []string) int {
	l := make([][]int, len(x)+1)
	l[0] = make([]int, len(y)+1)
	for i := range x {
		l[i+1] = make([]int, len(y)+1)
		for j := range y {
			l[i+1][j+1] = max(l[i][j+1], l[i+1][j])
			if x[i] == y[j] {
				l[i+1][j+1] = l[i][j] + 1
			}
		}
	}
	return l[len(x)][len(y)]
}

func TestCommonIsTheLongest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		some := func() []string {
			out := make([]string, r.IntN(12))
			for i := range out {
				out[i] = string(rune('a' + r.IntN(1+r.IntN(8))))
			}
			return out
		}
		x, y := some(), some()
		for _, budget := range []int{mostMatches, 10} {
			b := budget
			got, ok := common(x, y, span{0, len(x), 0, len(y)}, &b)
			if !ok && budget == mostMatches || ok && b < 0 {
				t.Fatalf("%v %v: %v, %d left of %d", x, y, ok, b, budget)
			}
			if ok && budget == mostMatches && len(got) != longest(x, y) {
				t.Fatalf("%v %v: %v, want %d", x, y, got, longest(x, y))
			}
			last := pair{-1, -1}
			for _, p := range got {
				if p.a <= last.a || p.b <= last.b || x[p.a] != y[p.b] {
					t.Fatalf("%v %v: %v", x, y, got)
				}
				last = p
			}
		}
	}
}

// items is a list of n objects in which some have another price.
func items(n int, inserted string, price func(i int) int) []byte {
	var b strings.Builder
	b.WriteString("[" + inserted)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"item %d","price":%d,"tags":["a","b"],"of":{"x":%d}}`, i, i, price(i), i%7)
	}
	b.WriteByte(']')
	return []byte(b.String())
}

func flags(n int, some string) []byte {
	return []byte("[" + strings.TrimSuffix(strings.Repeat(some, n), ",") + "]")
}

// bodies are long lists, and how many differences they have.
func bodies() map[string]struct {
	a, b []byte
	n    int
} {
	const n = 10_000
	return map[string]struct {
		a, b []byte
		n    int
	}{
		"one inserted, one changed": {items(n, "", func(int) int { return 1 }), items(n, "true,", func(i int) int { return 1 + i/(n-1) }), 2},
		"all changed":               {items(n, "", func(int) int { return 1 }), items(n, `{"id":-1,"name":"","price":0,"tags":[],"of":{}},`, func(int) int { return 2 }), mostDifferences},
		"all new":                   {items(n, "", func(int) int { return 1 }), []byte(strings.ReplaceAll(string(items(n, "", func(i int) int { return i })), `"id":`, `"id":9`)), mostDifferences},
		"few values":                {flags(n/3, "true,false,false,"), flags(n/3, "false,true,true,"), 0},
	}
}

// The new item at the front is one difference, whatever the length; where too many are
// equal it is said that the index counts.
func TestLongLists(t *testing.T) {
	for name, c := range bodies() {
		began := time.Now()
		got := Diff(Answer{Body: c.a}, Answer{Body: c.b}, nil)
		t.Logf("%s: %d differences in %s", name, len(got), time.Since(began))
		if c.n > 0 && len(got) != c.n {
			t.Errorf("%s: %d differences, want %d", name, len(got), c.n)
		}
		by := slices.ContainsFunc(got, func(d Difference) bool { return d.ByIndex })
		if few := name == "few values"; by != few || few && len(got) == 0 {
			t.Errorf("%s: by index: %v, of %d", name, by, len(got))
		}
	}
}

// Frequent lines do not keep the others from being aligned.
func TestFrequentLinesStayBesideOthers(t *testing.T) {
	var old strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&old, "line %d\n\n", i)
	}
	now := "new\n" + strings.Replace(old.String(), "line 2000\n", "line two\n", 1)
	want := []string{"body line 1:  > new", "body line 4002: line 2000 > line two"}
	got := Diff(Answer{Body: []byte(old.String())}, Answer{Body: []byte(now)}, nil)
	if !slices.Equal(words(got), want) || got[0].ByIndex {
		t.Errorf("%d: %.300q", len(got), words(got))
	}
}

func BenchmarkLists(b *testing.B) {
	for name, c := range bodies() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Diff(Answer{Body: c.a}, Answer{Body: c.b}, []string{"body [*].at"})
			}
		})
	}
}
