package proxy

import (
	"net/http"
	"slices"
	"strings"

	"lane/pkg/http1"
	"lane/pkg/lane"
	"lane/pkg/tracemap"
)

// marks are the fields of a head in which something of ours is read or written.
// All others pass as the bytes that they are.
type marks struct {
	names   []mark
	lengths uint64 // bit n is set if a name has n letters, the last one for more
}

type mark struct {
	lower, canonical string
}

// newMarks are those of the carriers, and of the headers in which a trace begins.
func newMarks(c *lane.Carriers, traces *tracemap.Sources) marks {
	var m marks
	start := traces.Begin()
	names := append(c.Names(), lane.HeaderTag, "cookie", lane.HeaderHops, lane.HeaderGuard, lane.HeaderVia)
	for _, f := range start.Fields() {
		names = append(names, f.Name)
	}
	// The header of other sessions is ours to take away, whatever this one's is.
	for _, n := range names {
		k := mark{strings.ToLower(n), http.CanonicalHeaderKey(n)}
		if !slices.Contains(m.names, k) { // several carriers may share one header
			m.names = append(m.names, k)
			m.lengths |= 1 << min(len(n), 63)
		}
	}
	return m
}

// of is the index of a field's mark, -1 for a field that is not ours to read.
func (m *marks) of(f *http1.Field) int {
	if m.lengths&(1<<min(len(f.Name), 63)) == 0 {
		return -1
	}
	for i := range m.names {
		if f.Is(m.names[i].lower) {
			return i
		}
	}
	return -1
}

// trails reports whether a request's field may stand behind its body: none that
// belongs into a head (RFC 9110, 6.5.1), and none in which something of ours is
// read.
func (m *marks) trails(f *http1.Field) bool { return trails(f) && m.of(f) < 0 }

// marked are the marks of one head, as a map that carriers are read from and
// written to. The head's other fields never leave their text.
type marked struct {
	m      *marks
	head   *http1.Head
	h      http.Header
	values []string // what h's slices point into
	which  []int    // mark of each field of the head, or -1
	seen   []bool   // the head has the mark
	put    []bool   // a mark's lines have been written
}

func (k *marked) read(m *marks, head *http1.Head) {
	k.m, k.head = m, head
	if k.h == nil {
		k.h = http.Header{}
	}
	clear(k.h)
	k.values, k.which = k.values[:0], k.which[:0]
	if cap(k.values) < len(head.Fields) { // the slices below must not move
		k.values = make([]string, 0, 2*len(head.Fields))
	}
	if len(k.seen) != len(m.names) {
		k.seen, k.put = make([]bool, len(m.names)), make([]bool, len(m.names))
	}
	clear(k.seen)
	for i := range head.Fields {
		f := &head.Fields[i]
		n := m.of(f)
		k.which = append(k.which, n)
		if n < 0 {
			continue
		}
		name := m.names[n].canonical
		again := k.seen[n]
		if k.seen[n] = true; again {
			k.h[name] = append(k.h[name], f.Value)
			continue
		}
		at := len(k.values)
		k.values = append(k.values, f.Value)
		k.h[name] = k.values[at : at+1 : at+1]
	}
}

// drop takes away what a Connection field names, once it has been read.
func (k *marked) drop(head *http1.Head) {
	if len(head.Options) == 0 {
		return
	}
	for i, n := range k.which {
		if n >= 0 && head.Named(&head.Fields[i]) {
			delete(k.h, k.m.names[n].canonical)
		}
	}
}

// begin starts writing a head.
func (k *marked) begin() { clear(k.put) }

// line appends a field whose mark is n as it is to go on: unchanged, or in its
// first place what was made of it.
func (k *marked) line(dst []byte, n int, f *http1.Field) []byte {
	if lines, ok := k.h[k.m.names[n].canonical]; ok && k.same(n, lines) {
		return append(append(dst, f.Line...), "\r\n"...)
	}
	return k.written(dst, n, f.Name)
}

// same reports whether the lines of a mark are still those that were read.
func (k *marked) same(n int, lines []string) bool {
	i := 0
	for at, which := range k.which {
		if which != n {
			continue
		}
		if i == len(lines) || lines[i] != k.head.Fields[at].Value {
			return false
		}
		i++
	}
	return i == len(lines)
}

// written appends what was written for a mark, once: under its literal name, or
// under the name that it came by if it was only shortened.
func (k *marked) written(dst []byte, n int, name string) []byte {
	if k.put[n] {
		return dst
	}
	k.put[n] = true
	lines := k.h[k.m.names[n].canonical]
	if l := k.h[k.m.names[n].lower]; len(l) > 0 {
		lines, name = l, k.m.names[n].lower
	}
	for _, v := range lines {
		dst = append(append(append(dst, name...), ": "...), v...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// rest appends what was written for marks that the head did not have.
func (k *marked) rest(dst []byte) []byte {
	for n := range k.m.names {
		if !k.seen[n] {
			dst = k.written(dst, n, k.m.names[n].lower)
		}
	}
	return dst
}
