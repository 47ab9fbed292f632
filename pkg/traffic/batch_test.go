package traffic

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lane/pkg/lane"
)

func TestBatchHasAllRowsUpToItsBound(t *testing.T) {
	l := NewLog(1000)
	for range 300 {
		l.Put(Exchange{Service: "a"})
	}
	for _, c := range []struct {
		most  int
		after uint64
		rows  int
	}{{0, 0, 300}, {300, 0, 300}, {299, 0, fewRows}, {50, 250, 50}, {49, 250, 50}, {1, 299, 1}} {
		b, err := l.Batch(t.Context(), c.after, c.most)
		if err != nil || len(b.Rows) != c.rows || b.Rows[c.rows-1].Seq != 300 || b.Rows[0].Seq != 301-uint64(c.rows) {
			t.Errorf("after %d, %d at most: %v, %v", c.after, c.most, seqs(b.Rows), err)
		}
		if uint64(c.rows)+b.Missing() != 300-c.after {
			t.Errorf("after %d, %d at most: %d rows and %d missing", c.after, c.most, len(b.Rows), b.Missing())
		}
	}
}

// What is no row is counted, by what tells its route, and nothing twice.
func TestBatchCountsWhatIsNoRow(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	kinds := []Exchange{
		{Service: "a", Lane: "x", Kind: lane.KindFallback, Reason: lane.ReasonLaneAbsent, Status: 200},
		{Service: "a", Lane: "x", Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Status: 503},
		{Service: "a", Lane: "x", Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Guard: GuardPassed, Status: 200},
		{Service: "b", Kind: lane.KindError, Code: lane.CodeNoInstances, Status: 503},
	}
	l := NewLog(1000)
	for i := range 800 {
		e := kinds[i%len(kinds)]
		e.Start, e.ReqHeader, e.ReqBody = at(i), HeadText("A: 1\r\n"), &Body{Bytes: []byte("x")}
		l.Put(e)
	}
	b, err := l.Batch(t.Context(), 0, 400)
	if err != nil || len(b.Rows) != fewRows || len(b.Left) != len(kinds) || b.Lost+b.More != 0 {
		t.Fatalf("%d rows, %d tallies, %v", len(b.Rows), len(b.Left), err)
	}
	for i, got := range b.Left {
		want := kinds[i]
		want.Seq, want.Start = uint64(697+i), at(696+i)
		failed := uint64(0)
		if want.Failed() {
			failed = 175
		}
		if got.N != 175 || got.Failed != failed || !got.First.Equal(at(i)) || got.Last.Seq != want.Seq || !got.Last.Start.Equal(want.Start) ||
			Route(got.Last) != Route(&want) || got.Last.ReqHeader != (Head{}) || got.Last.ReqBody != nil {
			t.Errorf("tally %d: %+v of %+v", i, got, got.Last)
		}
	}
	// Services are words of others: there is a bound, and what is beyond it counts.
	for i := range 1000 {
		l.Put(Exchange{Service: string(rune('A' + i%500))})
	}
	b, err = l.Batch(t.Context(), 800, 1)
	if err != nil || len(b.Left) != talliesMost || b.More == 0 || b.Missing() != 900 {
		t.Errorf("%d tallies, %d more, %d missing, %v", len(b.Left), b.More, b.Missing(), err)
	}
}

func TestBatchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(10)
		got := make(chan Batch)
		go func() {
			b, err := l.Batch(t.Context(), 0, 5)
			if err != nil {
				t.Error(err)
			}
			got <- b
		}()
		synctest.Wait()
		l.Put(Exchange{Service: "a"})
		if b := <-got; len(b.Rows) != 1 || b.Rows[0].Service != "a" {
			t.Errorf("%+v", b)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if b, err := l.Batch(ctx, 1, 5); !errors.Is(err, context.DeadlineExceeded) || len(b.Rows) != 0 {
			t.Errorf("%+v, %v", b, err)
		}
		// Memory that is used again keeps nothing of before.
		b := Batch{Rows: make([]Exchange, 7), Lost: 9, More: 9, Left: make([]Tally, 3)}
		if err := l.BatchInto(t.Context(), &b, 0, 5); err != nil || len(b.Rows) != 1 || b.Missing() != 0 {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

// A reader of a log that is written to meanwhile knows of every exchange: it is a
// row, or counted, or lost.
func TestBatchAccountsForEverything(t *testing.T) {
	const n = 200_000
	l := NewLog(1000)
	var all sync.WaitGroup
	for _, most := range []int{0, 1, 200, 5000} {
		all.Go(func() {
			var last, seen uint64
			for last < n {
				b, err := l.Batch(t.Context(), last, most)
				if err != nil || len(b.Rows) == 0 {
					t.Errorf("after %d: %d rows, %v", last, len(b.Rows), err)
					return
				}
				for i := range b.Rows[1:] {
					if b.Rows[i].Seq >= b.Rows[i+1].Seq {
						t.Errorf("row %d before %d", b.Rows[i].Seq, b.Rows[i+1].Seq)
					}
				}
				seen += uint64(len(b.Rows)) + b.Missing()
				if last = b.Newest(last); seen != last {
					t.Errorf("%d at most: %d exchanges accounted for, of %d", most, seen, last)
					return
				}
			}
		})
	}
	for range n {
		l.Put(Exchange{})
	}
	all.Wait()
}

// BenchmarkPutBesideAReader is what recording costs while a screen looks, as fast as
// it can: nobody may be held up by that.
func BenchmarkPutBesideAReader(b *testing.B) {
	for name, looks := range map[string]bool{"alone": false, "beside": true} {
		b.Run(name, func(b *testing.B) {
			l := NewLog(5000)
			ctx, stop := context.WithCancel(b.Context())
			var reader sync.WaitGroup
			if looks {
				reader.Go(func() {
					var batch Batch
					var after uint64
					for l.BatchInto(ctx, &batch, after, 400) == nil {
						after = batch.Newest(after)
					}
				})
			}
			e := Exchange{Service: "users", Lane: "dev-alice", Kind: lane.KindFallback, Status: 200}
			for b.Loop() {
				l.Put(e)
			}
			stop()
			reader.Wait()
		})
	}
}
