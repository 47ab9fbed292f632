package compare

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// lists tells in what two lists differ. The index is that of the second one, of an item
// that only the first one has that of the first.
func (d *diff) lists(where string, a, b value, x, y []any) {
	before := len(d.out)
	if len(x) == 1 && len(y) == 1 {
		d.values(where+"[0]", a.item(0), b.item(0))
		return
	}
	l, r := list{key: d.keys(where, x), shape: shapes(x)}, list{key: d.keys(where, y), shape: shapes(y)}
	if name, ok := d.naming(where, x, y); ok {
		l.name, r.name = named(x, name), named(y, name)
	}
	pairs, aligned := align(l, r, &d.matches)
	for _, p := range pairs {
		switch {
		case p.a < 0:
			d.add(at(where, p.b), "", text(b.item(p.b).shown))
		case p.b < 0:
			d.add(at(where, p.a), text(a.item(p.a).shown), "")
		case l.key[p.a] != r.key[p.b]:
			d.values(at(where, p.b), a.item(p.a), b.item(p.b))
		}
	}
	if len(d.out) == before {
		return
	}
	if from, to, ok := reordered(l.key, r.key); ok {
		d.out = d.out[:before]
		d.add(strings.TrimRight(where, " ")+" order", from, to)
		return
	}
	for i := before; !aligned && i < len(d.out); i++ {
		d.out[i].ByIndex = true
	}
}

func at(where string, i int) string { return where + "[" + strconv.Itoa(i) + "]" }

// keys are the items without what is ignored, as text, or its sum: of lists in lists each
// level has its own.
func (d *diff) keys(where string, items []any) []string {
	out := make([]string, len(items))
	for i, v := range items {
		out[i] = text(d.pruned(at(where, i), v))
		if len(out[i]) > sha256.Size {
			sum := sha256.Sum256([]byte(out[i]))
			out[i] = string(sum[:])
		}
	}
	return out
}

// pruned is a value without what is ignored in it.
func (d *diff) pruned(where string, v any) any {
	if !d.inBody {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, of := range v {
			if w := where + member(k); !d.ignored(w) {
				out[k] = d.pruned(w, of)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, of := range v {
			if w := at(where, i); !d.ignored(w) {
				out[i] = d.pruned(w, of)
			}
		}
		return out
	}
	return v
}

// naming is the member by which the items of two lists are known: all have it, no two of
// one list have the same, and the most of all such members are found in both.
func (d *diff) naming(where string, x, y []any) (name string, ok bool) {
	if len(x) == 0 || len(y) == 0 {
		return "", false
	}
	first, _ := x[0].(map[string]any)
	most := 0
	for _, k := range slices.Sorted(maps.Keys(first)) {
		if d.inBody && d.ignored(at(where, 0)+member(k)) {
			continue
		}
		if n := inBoth(x, y, k); n > most {
			name, most = k, n
		}
	}
	return name, most > 0
}

// inBoth is how many values of a member both lists have, 0 if nothing is known by it.
func inBoth(x, y []any, k string) (n int) {
	var seen [2]map[any]bool
	for i, items := range [][]any{x, y} {
		seen[i] = make(map[any]bool, len(items))
		for _, v := range items {
			m, _ := v.(map[string]any)
			switch of := m[k].(type) {
			case string, json.Number:
				if seen[i][of] {
					return 0
				}
				seen[i][of] = true
			default:
				return 0
			}
		}
	}
	for v := range seen[0] {
		if seen[1][v] {
			n++
		}
	}
	return n
}

func named(items []any, k string) []string {
	out := make([]string, len(items))
	for i, v := range items {
		out[i] = text(v.(map[string]any)[k])
	}
	return out
}

// shapes are what items are made of: the names of an object's members, else the kind.
func shapes(items []any) []string {
	out := make([]string, len(items))
	for i, v := range items {
		switch v := v.(type) {
		case map[string]any:
			out[i] = text(slices.Sorted(maps.Keys(v)))
		case []any:
			out[i] = "list"
		case nil:
			out[i] = "null"
		default:
			out[i] = "value"
		}
	}
	return out
}

// reordered says that two lists hold the same in another order, and in which one the
// second has what the first has as 0, 1, 2.
func reordered(x, y []string) (from, to string, ok bool) {
	if len(x) != len(y) || len(x) < 2 {
		return "", "", false
	}
	at := map[string][]int{} // where the first one has a value
	for i, k := range x {
		at[k] = append(at[k], i)
	}
	var was, is []string
	for i, k := range y {
		if len(at[k]) == 0 {
			return "", "", false
		}
		was, is = append(was, strconv.Itoa(i)), append(is, strconv.Itoa(at[k][0]))
		at[k] = at[k][1:]
	}
	const most = 50 // a longer list of numbers nobody reads
	if len(x) > most {
		return strconv.Itoa(len(x)) + " items", "the same in another order", true
	}
	return strings.Join(was, " "), strings.Join(is, " "), true
}

// lines tells in what two texts differ, line by line. The number is that of the second
// one, of a line that only the first one has that of the first.
func (d *diff) lines(x, y []string) {
	before := len(d.out)
	l, r := list{key: x, shape: make([]string, len(x))}, list{key: y, shape: make([]string, len(y))}
	pairs, aligned := align(l, r, &d.matches)
	for _, p := range pairs {
		switch {
		case p.a < 0:
			d.add(lineAt(p.b), "", alone(y, p.b))
		case p.b < 0:
			d.add(lineAt(p.a), alone(x, p.a), "")
		case x[p.a] != y[p.b]:
			d.add(lineAt(p.b), against(x[p.a], y[p.b]), against(y[p.b], x[p.a]))
		}
	}
	for i := before; !aligned && i < len(d.out); i++ {
		d.out[i].ByIndex = true
	}
}

func lineAt(i int) string { return "body line " + strconv.Itoa(i+1) }

// alone is a line that only one text has, in words if it is empty: behind the last line
// end there is an empty one, and the two are not the same.
func alone(lines []string, i int) string {
	switch {
	case lines[i] != "":
		return lines[i]
	case i == len(lines)-1:
		return "(nothing but the line end before it)"
	}
	return "(empty)"
}

// against is a line that has another one in its place: an empty one is no missing one.
func against(line, other string) string {
	if line == "" && other != "(empty)" {
		return "(empty)"
	}
	return line
}
