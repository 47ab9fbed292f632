package demo

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheTourHolds(t *testing.T) {
	told := 0
	began := time.Now()
	r, err := Tour(t.Context(), Options{Now: time.Now}, func(s Shown) error {
		told++
		t.Logf("%v %d %v %s: %s", time.Since(began), s.N, s.OK, s.Text, s.Detail)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK || told != len(theTour()) || len(r.Steps) != told {
		t.Errorf("ok %v, %d steps told, %d reported, %d in the tour", r.OK, told, len(r.Steps), len(theTour()))
	}
}

var _ context.Context
