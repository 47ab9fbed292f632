package demo

import (
	"context"
	"errors"
	"testing"
)

var errFailed = errors.New("failed")

// lasts is a part that runs for as long as it may.
func lasts(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestNest(t *testing.T) {
	t.Run("the part outlives the body and the end of the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var order []string
		err := nest(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, "part")
			return ctx.Err() // its own end is no failure
		}, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			order = append(order, "body")
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || len(order) != 2 || order[0] != "body" {
			t.Errorf("%v in the order %v", err, order)
		}
	})
	t.Run("a part that fails ends the body", func(t *testing.T) {
		err := nest(t.Context(), func(context.Context) error { return errFailed }, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, errFailed) || errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a body that fails ends the part", func(t *testing.T) {
		if err := nest(t.Context(), lasts, func(context.Context) error { return errFailed }); !errors.Is(err, errFailed) {
			t.Errorf("%v", err)
		}
	})
	t.Run("both are well", func(t *testing.T) {
		if err := nest(t.Context(), lasts, func(context.Context) error { return nil }); err != nil {
			t.Errorf("%v", err)
		}
	})
}

func TestChain(t *testing.T) {
	base := func(name string, calls ...call) *page { return &page{Service: name, By: baseline, Calls: calls} }
	for _, c := range []struct {
		page *page
		want string
	}{
		{nil, "nobody"},
		{base(productpage, call{Service: details, Status: 200, Page: base(details)},
			call{Service: reviews, Status: 200, Page: &page{Service: reviews, By: "dev-alice"}}),
			"productpage(baseline) -> reviews(dev-alice)"},
		{base(productpage, call{Service: details, Status: 200, Page: &page{Service: details, By: "dev-eve"}}),
			"productpage(baseline) -> details(dev-eve)"},
		{base(reviews, call{Service: ratings, Status: 503, Code: "E_LANE_UNHEALTHY"}),
			"reviews(baseline) -> ratings: 503 E_LANE_UNHEALTHY"},
	} {
		if got := c.page.Chain(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
