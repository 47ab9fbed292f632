package tracemap

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// request are the keys of the i-th request: a hex id and a UUID.
func request(i uint64) Keys {
	x := i*0x9e3779b97f4a7c15 | 1
	k := Keys{n: 2}
	k.keys[0] = Key{kind: kindHex64, lo: x}
	k.keys[1] = Key{kind: kindUUID, hi: x, lo: ^x}
	return k
}

// Every Put is of a new trace in a full map: the oldest goes each time.
func BenchmarkPutTwoIDs(b *testing.B) {
	m, next := New(Options{}), atomic.Uint64{}
	for range DefaultSize {
		k := request(next.Add(1))
		m.Put(&k, "gray")
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			k := request(next.Add(1))
			m.Put(&k, "gray")
		}
	})
}

// One trace that comes in again and again, as at a service that is called often
// for one request of a user.
func BenchmarkPutAgain(b *testing.B) {
	m, k := New(Options{}), request(1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Put(&k, "gray")
		}
	})
}

// Traces all over a full map, none of which is in the processor's cache.
func BenchmarkGet(b *testing.B) {
	m, seen := New(Options{}), atomic.Uint64{}
	for i := range uint64(DefaultSize) {
		k := request(i)
		m.Put(&k, "gray")
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := seen.Add(1) * 7919
		for pb.Next() {
			i += 7919
			k := request(i % DefaultSize)
			if m.Get(&k) != "gray" {
				b.Error("lost")
			}
		}
	})
}

// Calls that an application makes for a request that has just come in.
func BenchmarkGetAgain(b *testing.B) {
	m, k := New(Options{}), request(1)
	m.Put(&k, "gray")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if m.Get(&k) != "gray" {
				b.Error("lost")
			}
		}
	})
}

// As in a sidecar: each inbound request has three outbound ones.
func BenchmarkPutAndThreeGets(b *testing.B) {
	m, next := New(Options{}), atomic.Uint64{}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			k := request(next.Add(1))
			m.Put(&k, "gray")
			for range 3 {
				m.Get(&k)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	h := http.Header{"Accept": {"*/*"}, "User-Agent": {"curl"}, "X-Lane-Tag": {"gray"},
		"Traceparent":  {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		"X-Request-Id": {"19603cb9-4729-9b3d-aea1-8eb7b646c3e6"}}
	var s Sources
	b.ReportAllocs()
	for b.Loop() {
		var k Keys
		s.Read(h.Get, &k)
		if k.Len() != 2 {
			b.Fatal(k.Len())
		}
	}
}
