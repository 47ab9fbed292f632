package whitelist

import "testing"

func BenchmarkRemembered(b *testing.B) {
	s := &source{users: map[string]bool{"ann": true}}
	answers := newMemo(capacity, &counts{}, logger(nil), s.load)
	answers.get(b.Context(), "shop/ann", "shop", "ann")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			answers.get(b.Context(), "shop/ann", "shop", "ann")
		}
	})
}

func BenchmarkRefusedByTheBreaker(b *testing.B) {
	answers := newMemo(capacity, &counts{}, logger(nil), (&source{}).load)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			answers.breaker.failed()
			answers.get(b.Context(), "shop/ann", "shop", "ann")
		}
	})
}
