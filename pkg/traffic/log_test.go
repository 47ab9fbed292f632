package traffic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lane/pkg/lane"
)

func seqs(rows []Exchange) (out []uint64) {
	for _, e := range rows {
		out = append(out, e.Seq)
	}
	return out
}

func TestLogKeepsTheNewest(t *testing.T) {
	l := NewLog(3)
	if rows, lost := l.Since(0, 0); len(rows) != 0 || lost != 0 || l.Last() != 0 {
		t.Fatalf("an empty log has %v, lost %d, last %d", rows, lost, l.Last())
	}
	for i := range 5 {
		if seq := l.Put(Exchange{Status: 200 + i}); seq != uint64(i+1) {
			t.Fatalf("Put %d gave %d", i, seq)
		}
	}
	for _, c := range []struct {
		after uint64
		limit int
		want  []uint64
		lost  uint64
	}{
		{0, 0, []uint64{3, 4, 5}, 2},
		{1, 0, []uint64{3, 4, 5}, 1},
		{2, 0, []uint64{3, 4, 5}, 0},
		{4, 0, []uint64{5}, 0},
		{5, 0, nil, 0},
		{9, 0, nil, 0}, // a reader of another session
		{0, 2, []uint64{3, 4}, 2},
	} {
		rows, lost := l.Since(c.after, c.limit)
		if fmt.Sprint(seqs(rows)) != fmt.Sprint(c.want) || lost != c.lost {
			t.Errorf("Since(%d, %d) = %v, lost %d; want %v, %d", c.after, c.limit, seqs(rows), lost, c.want, c.lost)
		}
	}
	mine := make([]Exchange, 1, 8)
	if all, lost := l.AppendSince(mine, 0, 2); fmt.Sprint(seqs(all)) != "[0 3 4]" || lost != 2 || &all[0] != &mine[0] {
		t.Errorf("AppendSince = %v, lost %d, or in other memory", seqs(all), lost)
	}
	if all, lost := l.AppendSince(mine, 5, 2); len(all) != 1 || lost != 0 {
		t.Errorf("AppendSince = %v, lost %d: there is nothing new", seqs(all), lost)
	}
	if rows, _ := l.Since(2, 1); rows[0].Status != 202 {
		t.Errorf("exchange 3 is %+v", rows[0])
	}
}

func TestLogGrowsToItsSize(t *testing.T) {
	const size = 1000
	l := NewLog(size)
	for range 3 * size {
		l.Put(Exchange{})
	}
	if rows, lost := l.Since(0, 0); len(rows) != size || lost != 2*size {
		t.Errorf("%d rows, %d lost", len(rows), lost)
	}
	if l := NewLog(-1); l.Put(Exchange{}) != 1 || l.Put(Exchange{}) != 2 {
		t.Error("a log without a size keeps nothing")
	} else if rows, _ := l.Since(0, 0); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
}

// A reader that never comes back costs a writer nothing; one that waits gets the
// first exchange.
func TestPutNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan []Exchange) // nobody takes it for now
		go func() {
			rows, _, err := l.Next(ctx, 0, 0)
			if err != nil {
				t.Error(err)
			}
			got <- rows
		}()
		synctest.Wait()
		from := time.Now()
		for range 100 {
			l.Put(Exchange{})
		}
		if took := time.Since(from); took != 0 {
			t.Errorf("Put waited for %s", took)
		}
		if rows := <-got; len(rows) == 0 {
			t.Error("the reader woke with nothing")
		}
	})
}

func TestNextEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(10)
		l.Put(Exchange{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if rows, _, err := l.Next(ctx, 1, 0); !errors.Is(err, context.DeadlineExceeded) || len(rows) != 0 {
			t.Errorf("Next = %v, %v", rows, err)
		}
		if rows, _, err := l.Next(ctx, 0, 0); err != nil || len(rows) != 1 {
			t.Errorf("what is there needs no waiting: %v, %v", rows, err)
		}
	})
}

func TestEveryReaderGetsEverything(t *testing.T) {
	const n, readers = 500, 4
	l := NewLog(n)
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			var last uint64
			for last < n {
				rows, lost, err := l.Next(t.Context(), last, 0)
				if err != nil || lost != 0 || rows[0].Seq != last+1 {
					t.Errorf("after %d: %v, lost %d, %v", last, seqs(rows), lost, err)
					return
				}
				last = rows[len(rows)-1].Seq
			}
		})
	}
	for range n {
		l.Put(Exchange{})
	}
	all.Wait()
}

func TestWordsForWhatCannotBeKnown(t *testing.T) {
	e := Exchange{Kind: lane.KindError, Code: lane.CodeRegistryStale, Reason: lane.ReasonAbsenceNotTrusted, Service: "users", Lane: "dev-alice"}
	if got := Why(&e); got != "the registry is out of date: whether users runs in lane dev-alice is not known" {
		t.Error(got)
	}
	e.Warnings = []string{lane.WarnClaimsUnknown}
	if got := Why(&e); got != "the registry does not let the claims be read: whether users runs in lane dev-alice is not known" {
		t.Error(got)
	}
	c := Exchange{Kind: lane.KindBaseline, Reason: lane.ReasonExplicitBaseline, Proto: "CONNECT"}
	if got := Why(&c); got != "a tunnel shows no tag: the baseline serves it" {
		t.Error(got)
	}
}

func TestFilterFindsTheLaneOfWhatAGuardTurnedAway(t *testing.T) {
	f, err := ParseFilter("lane:dev-bob")
	if err != nil {
		t.Fatal(err)
	}
	bounced := Exchange{Front: FrontGuard, Guard: GuardBounced, Tag: "dev-bob"}
	if !f.Match(&bounced) {
		t.Error("a bounced request of the lane is not found")
	}
	if f.Match(&Exchange{Front: FrontForward, Tag: "dev-bob"}) {
		t.Error("a tag alone is no lane")
	}
}
