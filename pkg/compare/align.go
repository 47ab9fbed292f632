package compare

import "slices"

// list is what two lists are aligned by, each slice as long as the list. Items with the
// same key are the same.
type list struct {
	key   []string
	name  []string // what an item is known by, though it differs in other things; nil: nothing
	shape []string // what it is made of: only the like is taken for a changed one
}

// pair is an item of the first list and one of the second that stand for each other; -1
// where there is none: one was removed, or inserted.
type pair struct{ a, b int }

// mostMatches bounds what a whole comparison costs, in pairs of equal items that are
// looked at: some tenths of a second, and 12 MB at once.
const mostMatches = 1 << 20

// align pairs the items of two lists, all of them, in their order: the same ones first,
// between them those known by the same name, between those the others, as far as they are
// of one shape. Where that tells no less than going by index does, it goes by index.
// It is the same in both directions. If there are too many equal items to be aligned
// within the budget, it goes by index, and ok is false.
func align(x, y list, budget *int) (pairs []pair, ok bool) {
	if slices.Compare(x.key, y.key) > 0 { // one direction for both: of several ways it takes the same
		pairs, ok = align(y, x, budget)
		var both []pair
		for _, p := range pairs {
			if p.a >= 0 && p.b >= 0 {
				both = append(both, pair{p.b, p.a})
			}
		}
		return filled(both, len(x.key), len(y.key)), ok // what was removed goes first again
	}
	n, m := len(x.key), len(y.key)
	indexed := byIndex(n, m)
	same, ok := common(x.key, y.key, span{0, n, 0, m}, budget)
	if !ok {
		return indexed, false
	}
	if x.name != nil && y.name != nil {
		known := slices.Clone(same)
		for _, g := range gaps(same, n, m) {
			if more, ok := common(x.name, y.name, g, budget); ok {
				known = append(known, more...)
			}
		}
		same = sorted(known)
	}
	changed := slices.Clone(same)
	for _, g := range gaps(same, n, m) {
		changed = append(changed, alike(x.shape, y.shape, g)...)
	}
	pairs = filled(sorted(changed), n, m)
	if cost(x, y, indexed) <= cost(x, y, pairs) {
		return indexed, true
	}
	return pairs, true
}

// cost is how much a way of pairing has to tell.
func cost(x, y list, pairs []pair) (n int) {
	for _, p := range pairs {
		switch {
		case p.a < 0 || p.b < 0:
			n += 2
		case x.key[p.a] == y.key[p.b]:
		case x.name != nil && y.name != nil && x.name[p.a] == y.name[p.b]:
			n++
		default:
			n += 2
		}
	}
	return n
}

func byIndex(n, m int) []pair {
	pairs := make([]pair, max(n, m))
	for i := range pairs {
		pairs[i] = pair{i, i}
		if i >= n {
			pairs[i].a = -1
		}
		if i >= m {
			pairs[i].b = -1
		}
	}
	return pairs
}

func sorted(pairs []pair) []pair {
	slices.SortFunc(pairs, func(p, q pair) int { return p.a - q.a })
	return pairs
}

// span is a part of each list: from a to aEnd, from b to bEnd.
type span struct{ a, aEnd, b, bEnd int }

// gaps are the parts between pairs in which both lists have something.
func gaps(pairs []pair, n, m int) (out []span) {
	a, b := 0, 0
	for _, p := range append(slices.Clone(pairs), pair{n, m}) {
		if p.a > a && p.b > b {
			out = append(out, span{a, p.a, b, p.b})
		}
		a, b = p.a+1, p.b+1
	}
	return out
}

// filled are pairs and what stands between them: what was removed, what was inserted.
func filled(pairs []pair, n, m int) (out []pair) {
	a, b := 0, 0
	for _, p := range append(slices.Clone(pairs), pair{n, m}) {
		for ; a < p.a; a++ {
			out = append(out, pair{a, -1})
		}
		for ; b < p.b; b++ {
			out = append(out, pair{-1, b})
		}
		if p.a < n {
			out = append(out, p)
		}
		a, b = p.a+1, p.b+1
	}
	return out
}

// alike pairs, in their order, what is of one shape; as many as stand there on both sides
// have changed in their places, whatever they are.
func alike(x, y []string, g span) (out []pair) {
	if g.aEnd-g.a == g.bEnd-g.b {
		for i := range g.aEnd - g.a {
			out = append(out, pair{g.a + i, g.b + i})
		}
		return out
	}
	at := map[string][]int{}
	for j := g.b; j < g.bEnd; j++ {
		at[y[j]] = append(at[y[j]], j)
	}
	next := g.b
	for i := g.a; i < g.aEnd; i++ {
		left := at[x[i]]
		for len(left) > 0 && left[0] < next {
			left = left[1:]
		}
		if at[x[i]] = left; len(left) > 0 {
			out = append(out, pair{i, left[0]})
			next = left[0] + 1
		}
	}
	return out
}

// common is a longest common subsequence of two parts (Hunt and Szymanski): the equal
// ones at both ends, and between them the longest chain of matches that goes on in both.
// Where equal items repeat themselves so often that the matches pass the budget, the more
// frequent ones are matched beside others only.
func common(x, y []string, g span, budget *int) (out []pair, ok bool) {
	x, y = x[g.a:g.aEnd], y[g.b:g.bEnd]
	from := ends(x, y)
	for i := range from {
		out = append(out, pair{g.a + i, g.b + i})
	}
	x, y = x[from:], y[from:]
	n, m := len(x), len(y)
	behind := 0
	for behind < min(n, m) && x[n-1-behind] == y[m-1-behind] {
		behind++
	}
	x, y = x[:n-behind], y[:m-behind]
	middle, ok := chain(x, y, budget)
	if !ok {
		return nil, false
	}
	for _, p := range middle {
		out = append(out, pair{g.a + from + p.a, g.b + from + p.b})
	}
	for i := behind; i > 0; i-- {
		out = append(out, pair{g.a + from + n - i, g.b + from + m - i})
	}
	return out, true
}

// ends is how many items are equal at the beginning.
func ends(x, y []string) (n int) {
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

// chain is the longest chain of matches.
func chain(x, y []string, budget *int) (out []pair, ok bool) {
	at := map[string][]int{} // where y has a key
	for j, k := range y {
		at[k] = append(at[k], j)
	}
	times := map[string]int{} // how often x has it
	for _, k := range x {
		times[k]++
	}
	const often = 1 << 12
	most, all := 0, 0 // matches of one key; of those that count
	for _, most = range []int{*budget, often, 1} {
		all = 0
		for k, n := range times {
			if n *= len(at[k]); n <= most {
				all += n
			}
		}
		if all <= *budget {
			break
		}
	}
	if all > *budget {
		return nil, false
	}
	*budget -= all
	// A match and the one before it in the longest chain that ends with it; of all
	// chains of a length, that which ends first in y.
	type match struct {
		pair
		before int32
	}
	var matches []match
	var lasts []int  // y's index of the last match, by length
	var tail []int32 // that match
	left := false
	for i, k := range x {
		js := at[k]
		if times[k]*len(js) > most {
			left = true
			continue
		}
		for _, j := range slices.Backward(js) {
			length, there := slices.BinarySearch(lasts, j)
			if there {
				continue
			}
			before := int32(-1)
			if length > 0 {
				before = tail[length-1]
			}
			matches = append(matches, match{pair{i, j}, before})
			last := int32(len(matches) - 1)
			if length == len(lasts) {
				lasts, tail = append(lasts, j), append(tail, last)
			} else {
				lasts[length], tail[length] = j, last
			}
		}
	}
	if len(tail) > 0 {
		for at := tail[len(tail)-1]; at >= 0; at = matches[at].before {
			out = append(out, matches[at].pair)
		}
		slices.Reverse(out)
	}
	if !left {
		return out, true
	}
	if len(out) == 0 {
		return nil, false
	}
	return beside(x, y, out), true
}

// beside adds to matches the equal items right behind and right before them.
func beside(x, y []string, pairs []pair) []pair {
	out := slices.Clone(pairs)
	for _, g := range gaps(pairs, len(x), len(y)) {
		a, b := x[g.a:g.aEnd], y[g.b:g.bEnd]
		n := ends(a, b)
		for i := range n {
			out = append(out, pair{g.a + i, g.b + i})
		}
		for i := 1; i <= min(len(a), len(b))-n && a[len(a)-i] == b[len(b)-i]; i++ {
			out = append(out, pair{g.aEnd - i, g.bEnd - i})
		}
	}
	return sorted(out)
}
