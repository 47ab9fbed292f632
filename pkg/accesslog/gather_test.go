package accesslog

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lane/pkg/traffic"
)

// writes notes how many lines each write has.
type writes struct{ lines []int }

func (w *writes) Write(p []byte) (int, error) {
	w.lines = append(w.lines, strings.Count(string(p), "\n"))
	return len(p), nil
}

// A line is written at once where there are few, and those that come soon after it
// go together: a write for each costs more than the line.
func TestLinesGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{}
		l, err := Open(Options{Out: w, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		from := traffic.NewLog(4096)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx, from) }()
		step := func(puts int, wait time.Duration, want ...int) {
			t.Helper()
			for range puts {
				from.Put(traffic.Exchange{Start: time.Now()})
			}
			time.Sleep(wait)
			synctest.Wait()
			if !slices.Equal(w.lines, want) {
				t.Fatalf("writes of %v lines, want %v", w.lines, want)
			}
		}
		step(1, 0, 1)
		step(5, gather/2, 1)
		step(5, gather/2, 1, 10)
		step(0, gather, 1, 10)
		step(1, 0, 1, 10, 1)
		// More than a write takes do not wait, for the log that is read is bounded.
		step(2*batch+3, gather, 1, 10, 1, batch, batch, 3)
		step(4, 0, 1, 10, 1, batch, batch, 3)
		cancel() // the end writes what is there
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 10, 1, batch, batch, 3, 4}; !slices.Equal(w.lines, want) {
			t.Errorf("writes of %v lines, want %v", w.lines, want)
		}
	})
}
