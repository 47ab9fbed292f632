package tracemap

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"lane/pkg/lane"
)

type step struct {
	Do   string // in, out, wait, fill
	Head map[string]string
	Tag  lane.Name
	Want lane.Name
	Keys *int
	For  string
	N    int
}

type tracecase struct {
	ID, Title, Sources string
	Steps              []step
	Stats              Stats
}

func TestCases(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load[tracecase](t, "cases.json") {
		seen[c.ID] = true
		t.Run(c.ID+" "+c.Title, func(t *testing.T) { synctest.Test(t, c.run) })
	}
	for i := range 10 {
		if id := fmt.Sprintf("T%d", i+1); !seen[id] {
			t.Errorf("no case %s", id)
		}
	}
}

func (c *tracecase) run(t *testing.T) {
	m := New(Options{})
	for i, s := range c.Steps {
		h := http.Header{}
		for k, v := range s.Head {
			h.Set(k, v)
		}
		k := read(t, c.Sources, h.Get)
		if s.Keys != nil && *s.Keys != k.Len() {
			t.Errorf("step %d: %d keys, want %d", i, k.Len(), *s.Keys)
		}
		var got lane.Name
		switch s.Do {
		case "in":
			got = m.Put(&k, s.Tag)
		case "out":
			got = m.Get(&k)
		case "wait":
			d, err := time.ParseDuration(s.For)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d) // the bubble's clock
		case "fill":
			for n := range s.N {
				k := Keys{n: 1}
				k.keys[0] = Key{kind: kindOpaque, text: "fill-" + strconv.Itoa(n)}
				m.Put(&k, "filled")
			}
		default:
			t.Fatalf("step %d does %q", i, s.Do)
		}
		if got != s.Want {
			t.Errorf("step %d (%s): %q, want %q", i, s.Do, got, s.Want)
		}
	}
	if got := m.Stats(); got != c.Stats {
		t.Errorf("%+v, want %+v", got, c.Stats)
	}
}

// Requests are all that a map is told of: it has no other way in, for a response
// or anything else.
func TestOnlyRequestsGoIn(t *testing.T) {
	var got []string
	for f := range reflect.TypeFor[*Map]().Methods() {
		got = append(got, f.Name)
	}
	if fmt.Sprint(got) != "[Get Put Stats]" {
		t.Errorf("a map can %v", got)
	}
}

// ids are the heads of one trace: any of them must find it.
func ids(r *rand.Rand) []http.Header {
	hi, lo := r.Uint64(), r.Uint64()|1
	uuid := fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.Uint32()>>16, r.Uint32()>>20, r.Uint32()>>20, r.Uint64()>>16)
	return []http.Header{
		{"Traceparent": {fmt.Sprintf("00-%016x%016x-%016x-01", hi, lo, r.Uint64()|1)}},
		{"B3": {fmt.Sprintf("%016x-%016x-1", lo, r.Uint64())}},
		{"X-Datadog-Trace-Id": {strconv.FormatUint(lo, 10)}},
		{"X-Request-Id": {uuid}},
		{"X-Request-Id": {uuid[:14] + "9" + uuid[15:]}},
	}
}

// Ten thousand traces at once, each with a lane of its own choice: each outbound
// request gets its own, by whatever id the application passes on.
func TestNoWrongLane(t *testing.T) {
	const traces, workers = 10_000, 64
	m := New(Options{})
	var wg sync.WaitGroup
	put, next := make(chan struct{}), make(chan uint64)
	for range workers {
		wg.Go(func() {
			for i := range next {
				r := rand.New(rand.NewPCG(1, i))
				tag := lane.Name(fmt.Sprintf("lane-%d", r.IntN(1000)))
				all := ids(r)
				in := http.Header{"Traceparent": all[0]["Traceparent"], "X-Request-Id": all[3]["X-Request-Id"]}
				k := read(t, Auto, in.Get)
				if got := m.Put(&k, tag); got != tag {
					t.Errorf("trace %d came in as %s, is %s", i, tag, got)
				}
				if i == traces-1 {
					close(put)
				}
				for _, h := range all {
					k := read(t, Auto, h.Get)
					if got := m.Get(&k); got != tag {
						t.Errorf("trace %d: %v has lane %q, want %s", i, h, got, tag)
					}
				}
			}
		})
	}
	for i := range uint64(traces) {
		next <- i
	}
	<-put
	close(next)
	wg.Wait()
	for i := range uint64(traces) { // and once more, when all of them are in
		r := rand.New(rand.NewPCG(1, i))
		tag := lane.Name(fmt.Sprintf("lane-%d", r.IntN(1000)))
		for _, h := range ids(r) {
			if k := read(t, Auto, h.Get); m.Get(&k) != tag {
				t.Fatalf("trace %d: %v has lane %q, want %s", i, h, m.Get(&k), tag)
			}
		}
	}
	if got, want := m.Stats(), (Stats{Size: traces}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Requests of the same few traces that race each other, with different tags and
// different ids, while the map is far too small: one tag for each trace, and an
// index that knows no trace that is gone.
func TestRace(t *testing.T) {
	m := New(Options{Size: 8, TTL: time.Millisecond})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(w)))
			for range 2000 {
				trace := r.Uint64N(16)
				var k Keys
				for range 1 + r.IntN(3) { // each id belongs to one trace
					id := trace<<8 | r.Uint64N(12)
					k.add([]ID{{kind: kindHex64, lo: id | 1<<32}, {kind: kindUUID, lo: id}, {kind: kindOpaque, text: strconv.FormatUint(id, 10)}}[r.IntN(3)])
				}
				prefix := "lane-" + strconv.FormatUint(trace, 10) + "-"
				tag := lane.Name(prefix + strconv.Itoa(r.IntN(3)))
				for _, got := range []lane.Name{m.Put(&k, tag), m.Get(&k)} {
					if got != "" && (len(got) <= len(prefix) || string(got[:len(prefix)]) != prefix) {
						t.Errorf("a request of trace %d got %s", trace, got)
					}
				}
				if s := m.Stats(); s.Size > 8+8 { // those that are just being put
					t.Errorf("%d traces", s.Size)
				}
			}
		})
	}
	wg.Wait()
	consistent(t, m)
}

// consistent holds the index to the list: whatever is indexed is held, and under
// its own keys.
func consistent(t *testing.T, m *Map) {
	t.Helper()
	held := map[*trace]bool{}
	var last *trace
	for e := m.list.oldest; e != nil; last, e = e, e.newer {
		if e.older != last || len(e.keys) > maxKeys || last != nil && last.at.Load() > e.at.Load() {
			t.Errorf("the list is broken at %v", e.keys)
		}
		held[e] = true
	}
	if m.list.newest != last || len(held) != m.list.size {
		t.Errorf("%d traces are held, the list says %d", len(held), m.list.size)
	}
	check := func(k Key, e *trace) {
		own := false
		for i := range e.keys {
			own = own || e.keys[i] == k
		}
		if !held[e] || !own {
			t.Errorf("%s leads to a trace that is gone (%v) or not its own (%v)", k, !held[e], !own)
		}
	}
	for i := range m.parts {
		for lo, e := range m.parts[i].hex {
			check(Key{kind: kindHex64, lo: lo}, e)
		}
		for n, e := range m.parts[i].uuid {
			check(Key{kind: kindUUID, hi: n[0], lo: n[1]}, e)
		}
		for k, e := range m.parts[i].other {
			check(k, e)
		}
	}
}

// indexed is how many keys lead somewhere.
func indexed(m *Map) (n int) {
	for i := range m.parts {
		n += len(m.parts[i].hex) + len(m.parts[i].uuid) + len(m.parts[i].other)
	}
	return n
}

// A trace that comes in with ever new ids keeps its tag under each of them, and
// takes the room of as many traces as it needs.
func TestTraceWithManyIDs(t *testing.T) {
	m := New(Options{Size: 16})
	bear := func(i uint64) Keys {
		k := Keys{n: 2}
		k.keys[0] = Key{kind: kindHex64, lo: 7}
		k.keys[1] = Key{kind: kindUUID, lo: i}
		return k
	}
	for i := range uint64(100) {
		k := bear(i)
		if got := m.Put(&k, "gray"); got != "gray" {
			t.Fatalf("request %d is of %q", i, got)
		}
	}
	for i := range uint64(100) {
		k := bear(i)
		k.keys[0], k.n = k.keys[1], 1 // the application passes on this one alone
		if got := m.Get(&k); got != "gray" {
			t.Errorf("id %d has %q", i, got)
		}
	}
	if got := m.Stats(); got != (Stats{Size: 15}) || indexed(m) != 101 {
		t.Errorf("%+v, %d keys", got, indexed(m))
	}
	consistent(t, m)
}

// The head that a request was read from is read over by the next one.
func TestNothingOfTheHeadIsKept(t *testing.T) {
	m := New(Options{})
	head := []byte("id-1 gray")
	k := Keys{n: 1}
	k.keys[0] = Key{kind: kindOpaque, text: alias(head[:4])}
	m.Put(&k, lane.Name(alias(head[5:])))
	copy(head, "id-2 dev2")
	for id, want := range map[string]lane.Name{"id-1": "gray", "id-2": ""} {
		k := read(t, "x-request-id", (&format{Header: "x-request-id", Value: id}).get)
		if got := m.Get(&k); got != want {
			t.Errorf("%s has %q, want %q", id, got, want)
		}
	}
}

// Time on its own frees what has expired as soon as somebody asks or comes in.
func TestExpiredTracesLeave(t *testing.T) {
	now := time.Unix(1000, 0)
	m := New(Options{TTL: time.Minute, Now: func() time.Time { return now }})
	for i := range uint64(100) {
		k := request(i)
		m.Put(&k, "gray")
	}
	now = now.Add(time.Minute)
	k := request(1000)
	m.Put(&k, "dev2")
	if m.list.size != 101-trimmed || indexed(m) != 2*m.list.size {
		t.Errorf("one request left %d traces, %d keys", m.list.size, indexed(m))
	}
	if got, want := m.Stats(), (Stats{Size: 1, Expired: 100}); got != want || indexed(m) != 2 {
		t.Errorf("%+v, %d keys; want %+v", got, indexed(m), want)
	}
	now = now.Add(-time.Hour) // a clock that was set back makes nothing older, and nothing worse
	if got := m.Get(&k); got != "dev2" {
		t.Errorf("after the clock was set back: %q", got)
	}
	k = request(1001)
	m.Put(&k, "gray")
	consistent(t, m)
}

// alias is a string that lies in b, as the engine's are in a connection's buffer.
func alias(b []byte) string { return unsafe.String(&b[0], len(b)) }
