package tui

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lane/pkg/traffic"
)

// words are the values of a package's text constants whose names begin so.
func words(t *testing.T, file, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "pkg", file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			s, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		return true
	})
	if len(out) < 2 {
		t.Fatalf("%s has %d constants %s...", file, len(out), prefix)
	}
	return out
}

// TestEveryStateIsGolden: what is added to the session's words, to the screens, to the
// questions or to the words of a row is added to the golden screens too.
func TestEveryStateIsGolden(t *testing.T) {
	seen := map[string]bool{}
	names := map[string]bool{}
	for _, s := range goldenStates() {
		if names[s.name] {
			t.Errorf("two states are called %s", s.name)
		}
		names[s.name] = true
		u := newUser(t, 80, 24, s.opts...)
		s.do(u)
		m := &u.m
		seen[fmt.Sprint("screen ", m.screen)] = true
		if m.screen == screenDetail {
			seen[fmt.Sprint("part ", m.part)] = true
		}
		if q, asks := m.waiting(); asks {
			seen["question "+q.before+q.after] = true
		}
		st := &m.status
		seen["session "+st.State], seen["registry "+st.Registry.State], seen["killed "+st.Killed] = true, true, true
		if st.Relay != nil {
			seen["relay "+st.Relay.State] = true
		}
		for _, v := range st.Services {
			seen["service "+v.State] = true
			if v.Claim != nil {
				seen["claim "+v.Claim.State] = true
			}
		}
		for e := range m.list.rows {
			seen["route "+traffic.Route(e)], seen["kind "+string(e.Kind)], seen["guard "+e.Guard] = true, true, true
			seen["mark "+string(traffic.Mark(e))] = true
		}
		for what, is := range map[string]bool{"gone": m.gone != nil && !m.ended(), "ended": m.ended(), "never known": !m.known, "empty": m.known && m.list.n == 0,
			"paused": m.list.paused, "lost rows": m.lostNow > 0, "filter that hides": m.list.n > 0 && len(m.list.shown) == 0, "filter that is wrong": m.filter.err != nil,
			"filter that is typed": m.filter.open, "a marked row": len(m.list.marked) > 0, "an order": m.list.order != byTime, "an env": st.Env != "", "a hint": m.hint != "",
			"a warning": len(st.Warnings) > 0, "a history": len(st.History) > 0, "bodies": st.Bodies, "an environment and a relay": st.Env != "" && st.Relay != nil} {
			seen[what] = seen[what] || is
		}
	}
	want := []string{"registry " + registryFresh, "registry " + registryStale, "registry " + registryUnreachable, "killed "}
	for _, c := range []struct{ kind, file, prefix string }{
		{"session", "control/status.go", "Session"}, {"service", "control/status.go", "State"}, {"relay", "control/status.go", "Relay"},
		{"claim", "control/status.go", "Claim"}, {"killed", "control/status.go", "Killed"},
		{"route", "traffic/words.go", "Route"}, {"guard", "traffic/exchange.go", "Guard"}, {"kind", "lane/decision.go", "Kind"},
	} {
		for _, w := range words(t, c.file, c.prefix) {
			want = append(want, c.kind+" "+w)
		}
	}
	for s := screenList; s == screenList || s.place() != inList; s++ {
		want = append(want, fmt.Sprint("screen ", s))
	}
	for p := range tabs {
		want = append(want, fmt.Sprint("part ", p))
	}
	for _, r := range []rune{traffic.MarkNone, traffic.MarkError, traffic.MarkFallback, traffic.MarkGuard} {
		want = append(want, "mark "+string(r))
	}
	// The questions are those that keys ask, of a row that may change something.
	asked := 0
	for _, b := range bindings() {
		u := newUser(t, 80, 24, doing(&doer{})).running().keys("<")
		if u.keys(b.Keys()[0]); b.Keys()[0] == " " {
			continue
		}
		if q, asks := u.m.waiting(); asks {
			asked++
			want = append(want, "question "+q.before+q.after)
		}
	}
	if asked < 5 {
		t.Errorf("%d keys ask", asked)
	}
	for _, w := range slices.Compact(slices.Sorted(slices.Values(want))) {
		if !seen[w] {
			t.Errorf("no golden screen has: %s", w)
		}
	}
	for _, w := range slices.Sorted(maps.Keys(seen)) {
		if !seen[w] {
			t.Errorf("no golden screen has: %s", w)
		}
	}
}

// TestNoGoldenIsLeftOver: each file is of a state that there is, and each state has its
// files: three sizes, each without attributes, with color and with NO_COLOR.
func TestNoGoldenIsLeftOver(t *testing.T) {
	want := map[string]bool{"running-60x15": true, "running-110x30": true, "running-80x24-utf8": true}
	ways := func(name string, w, h int) {
		for _, way := range []string{"", "-color", "-nocolor"} {
			want[fmt.Sprintf("%s-%dx%d%s", name, w, h, way)] = true
		}
	}
	ways("too-small", 40, 10)
	states := []string{}
	for _, s := range goldenStates() {
		states = append(states, s.name)
		want[s.name+"-40x10"] = true
	}
	for _, s := range []string{"refused", "refused-relay", "refused-rename", "refused-wrong"} {
		states = append(states, s)
		ways(s, 40, 10)
	}
	for _, s := range states {
		for _, size := range goldenSizes {
			ways(s, size[0], size[1])
		}
	}
	files, err := os.ReadDir(filepath.Join("..", "testdata", "golden", "tui"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".txt")
		if !want[name] {
			t.Errorf("%s is of no state", f.Name())
		}
		delete(want, name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("%s.txt is missing: go test ./tui -update writes it", name)
	}
}
