package demo

import (
	"context"
	"fmt"
	"time"
)

// ReportSchema names the JSON form of Report.
const ReportSchema = "lane.demo/v1"

// Report is a tour as it went.
type Report struct {
	Schema string  `json:"schema"`
	OK     bool    `json:"ok"`
	TookMS int64   `json:"took_ms"`
	Steps  []Shown `json:"steps"`
}

// Shown is one step of the tour, as it was seen.
type Shown struct {
	N      int    `json:"n"`
	Text   string `json:"text"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what was seen; if not OK, what was expected too
}

// step is one claim of the tour, and how it is checked: see returns what it has
// seen, with an error if the claim does not hold.
type step struct {
	says string
	see  func(ctx context.Context, w *World) (seen string, err error)
}

// stepLimit bounds each step.
const stepLimit = 60 * time.Second

// Tour brings a world up, checks every claim of the tour in it, and takes it
// down. It tells each step as it is seen. A claim that does not hold is no
// error: it stands in the report.
func Tour(ctx context.Context, o Options, tell func(Shown) error) (Report, error) {
	var r Report
	err := Run(ctx, o, func(ctx context.Context, w *World) (err error) {
		r, err = lead(ctx, w, theTour(), tell)
		return err
	})
	return r, err
}

// lead walks while customers come and go.
func lead(ctx context.Context, w *World, steps []step, tell func(Shown) error) (r Report, err error) {
	err = nest(ctx, w.comeAndGo, func(ctx context.Context) (err error) {
		r, err = walk(ctx, w, steps, tell)
		return err
	})
	return r, err
}

// walk checks steps in a world, one after the other.
func walk(ctx context.Context, w *World, steps []step, tell func(Shown) error) (Report, error) {
	began := w.o.Now()
	r := Report{Schema: ReportSchema, OK: true, Steps: []Shown{}}
	for i, s := range steps {
		c, cancel := context.WithTimeout(ctx, stepLimit)
		seen, err := s.see(c, w)
		cancel()
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		shown := Shown{N: i + 1, Text: s.says, OK: err == nil, Detail: seen}
		if err != nil {
			r.OK = false
			shown.Detail = err.Error()
			if seen != "" {
				shown.Detail = seen + ": " + shown.Detail
			}
		}
		r.Steps = append(r.Steps, shown)
		if err := tell(shown); err != nil {
			return r, err
		}
	}
	r.TookMS = w.o.Now().Sub(began).Milliseconds()
	return r, nil
}

// is passes what was seen on, with an error if something else was expected.
func is(seen, want string) (string, error) {
	if seen != want {
		return seen, fmt.Errorf("expected %s", want)
	}
	return seen, nil
}
