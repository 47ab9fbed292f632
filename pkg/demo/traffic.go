package demo

import (
	"context"
	"fmt"
	"time"

	"lane/pkg/lane"
)

// Show brings a world up, sends traffic at rate requests a second, and shows alice's
// session with view; when view returns, or ctx ends, everything is taken down.
func Show(ctx context.Context, o Options, rate int, view func(context.Context, *World) error) error {
	return Run(ctx, o, func(ctx context.Context, w *World) error {
		flow := func(ctx context.Context) error { return w.traffic(ctx, rate) }
		return nest(ctx, flow, func(ctx context.Context) error { return view(ctx, w) })
	})
}

// Alice is her session as its viewer sees it.
func (w *World) Alice() View { return w.alice.view }

// traffic sends the round of requests again and again until ctx ends.
func (w *World) traffic(ctx context.Context, rate int) error {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	round := w.round()
	for n := 0; ; n++ {
		// How it went is what the viewer shows; there is nobody else to tell.
		_ = round[n%len(round)](ctx, n)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// books is how many books the shop has.
const books = 9

// round is one round of requests, so mixed that each kind of row is seen early
// and errors are rare.
func (w *World) round() []func(context.Context, int) error {
	ask := func(c *caller, format string, headers ...string) func(context.Context, int) error {
		return func(ctx context.Context, n int) error {
			_, err := c.get(ctx, fmt.Sprintf(format, 1+n%books), headers...)
			return err
		}
	}
	visit := func(v visitor) func(context.Context, int) error {
		return func(ctx context.Context, n int) error {
			_, err := w.visit(ctx, v, fmt.Sprintf("/productpage/%d", 1+n%books))
			return err
		}
	}
	const anyPage = "http://productpage/productpage/%d"
	guard := "http://" + w.alice.status.Services[0].Guard + "/reviews/%d"

	alice := ask(w.alice.caller, anyPage)                          // fallback, her reviews, fallback
	herReviews := ask(w.alice.caller, "http://reviews/reviews/%d") // her lane at once
	dev2, customer, tester := visit(asDev2), visit(nobody), visit(asTester)
	someUser := func(ctx context.Context, n int) error { return visit(visitor{user: user(1 + n%users)})(ctx, n) }
	plain := ask(w.alice.caller, anyPage, lane.HeaderTag, lane.BaselineTag) // alice asks as anybody would
	stray := ask(w.people, guard)                                           // found her address in the registry, knows no lanes
	strayBob := ask(w.people, guard, lane.HeaderTag, laneBob)
	wrong := ask(w.alice.caller, anyPage, lane.HeaderTag, "Dev Alice!")
	elsewhere := func(ctx context.Context, _ int) error {
		_, err := w.alice.caller.get(ctx, "http://"+w.outside.addr+"/")
		return err
	}
	return []func(context.Context, int) error{
		alice, customer, plain, tester, dev2, herReviews, stray, someUser,
		dev2, strayBob, alice, plain, elsewhere, customer, herReviews, stray,
		dev2, tester, plain, someUser, wrong, herReviews, stray, alice,
	}
}
