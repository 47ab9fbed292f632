package consul_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lane/pkg/consul"
)

// desk answers a watch's asks one by one.
type desk struct {
	asked   chan uint64 // the index of an ask
	answer  chan error
	picture string // what an answer without an error says
	heard   []consul.Heard
	again   func() uint64
}

// newDesk runs a watch in the test's bubble; sticky asks do not end when they
// are cut off, as an answer that is on its way.
func newDesk(t *testing.T, sticky bool) *desk {
	d := &desk{asked: make(chan uint64), answer: make(chan error)}
	ctx, cancel := context.WithCancel(t.Context())
	var index uint64 = 100
	again, done := consul.RunWatch(ctx, func(h consul.Heard) { d.heard = append(d.heard, h) },
		func(qctx context.Context, i uint64) (uint64, string, error) {
			select {
			case d.asked <- i:
			case <-ctx.Done():
				return 0, "", ctx.Err()
			}
			cut := qctx.Done()
			if sticky {
				cut = nil
			}
			select {
			case err := <-d.answer:
				index++
				return index, d.picture, err
			case <-cut:
				return 0, "", qctx.Err()
			case <-ctx.Done():
				return 0, "", ctx.Err()
			}
		})
	d.again = again
	t.Cleanup(func() { cancel(); <-done })
	return d
}

// ask takes the next ask, and says after how long it came.
func (d *desk) ask() (index uint64, after time.Duration) {
	begin := time.Now()
	return <-d.asked, time.Since(begin)
}

// wantNew checks that the watch asks without an index, at once, and that its
// answer is told as one of the start.
func (d *desk) wantNew(t *testing.T, start uint64) {
	t.Helper()
	if i, after := d.ask(); i != 0 || after != 0 {
		t.Fatalf("asks with index %d after %v, want a new ask at once", i, after)
	}
	n := len(d.heard)
	d.answer <- nil
	synctest.Wait()
	if len(d.heard) != n+1 || d.heard[n] != (consul.Heard{Start: start}) {
		t.Fatalf("told: %+v", d.heard[n:])
	}
}

func TestAWatchThatStartsOver(t *testing.T) {
	bubble := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	bubble("while it waits for a change", func(t *testing.T) {
		d := newDesk(t, false)
		d.wantNew(t, 0)
		if i, _ := d.ask(); i == 0 {
			t.Fatal("does not wait for a change")
		}
		d.again()
		d.wantNew(t, 1)
	})
	bubble("while its pace holds it back", func(t *testing.T) {
		d := newDesk(t, false)
		d.wantNew(t, 0)
		for range 9 { // the rest of the burst
			d.ask()
			d.answer <- nil
		}
		synctest.Wait()
		d.again()
		d.wantNew(t, 1)
	})
	bubble("while an answer is on its way", func(t *testing.T) {
		d := newDesk(t, true)
		d.wantNew(t, 0)
		d.ask()
		d.again()
		d.picture = "of before"
		d.answer <- nil
		d.wantNew(t, 1)
		if len(d.heard) != 2 {
			t.Errorf("an old answer was told: %+v", d.heard)
		}
	})
	bubble("in the pauses after many failures", func(t *testing.T) {
		d := newDesk(t, false)
		away := errors.New("away")
		for range 40 {
			d.ask()
			d.answer <- away
		}
		synctest.Wait()
		d.again()
		if i, after := d.ask(); i != 0 || after != 0 {
			t.Fatalf("asks with index %d after %v", i, after)
		}
		d.answer <- away // not quite back: the long pauses are over all the same
		if _, after := d.ask(); after > 2*time.Second {
			t.Errorf("asks again after %v", after)
		}
	})
	bubble("without a reason it does not", func(t *testing.T) {
		d := newDesk(t, false)
		d.wantNew(t, 0)
		for range 20 {
			if i, _ := d.ask(); i == 0 {
				t.Fatal("asks anew")
			}
			d.answer <- nil
		}
		d.ask()
		if len(d.heard) != 1 {
			t.Errorf("nothing has changed, and it is told: %+v", d.heard)
		}
		d.picture = "another"
		d.answer <- nil
		d.ask()
		synctest.Wait()
		if len(d.heard) != 2 {
			t.Errorf("a change is not told: %+v", d.heard)
		}
	})
}

func TestAnAnswerOfBeforeTheOutageIsOld(t *testing.T) {
	if before, since := consul.OldAfter(); !before || since {
		t.Errorf("old after an answer of before: %v, of since: %v", before, since)
	}
}
