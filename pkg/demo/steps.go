package demo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// The three chains of the bookshop.
const (
	chainBase  = "productpage(baseline) -> reviews(baseline) -> ratings(baseline)"
	chainAlice = "productpage(baseline) -> reviews(dev-alice) -> ratings(baseline)"
	chainBob   = "productpage(baseline) -> reviews(baseline) -> ratings(dev-bob)"
)

// shopPage is the address under which everybody asks for the shop's page.
const shopPage = "http://productpage/productpage/7"

// theTour is the tour, in its order: later steps stand on earlier ones.
func theTour() []step {
	return []step{
		{"a registry runs on this machine alone", seeRegistry},
		{"four baseline services are in it, and know no lanes", seeBaseline},
		{"two developers have put one local process each into a lane", seeLanes},
		{"no tag: the baseline serves everything", seeUntagged},
		{"alice's tag: her local reviews, all else the baseline", seeAlice},
		{"her reviews answer differently, to her alone", seeDifference},
		{"bob's tag: the chain leaves his lane and comes back to it", seeBob},
		{"each response says what happened, in X-Lane-Decision", seeDecision},
		{"each fallback is counted, and shown with its reason", seeFallback},
		{"the trace goes all the way, and the lane with it", seeTrace},
		{"24 requests at once: no tag ever gets into another's lane", seeMix},
		{"no tag at alice's registered address: bounced, her process not called", func(ctx context.Context, w *World) (string, error) { return seeBounce(ctx, w, "") }},
		{"bob's tag at her address: bounced too", func(ctx context.Context, w *World) (string, error) {
			return seeBounce(ctx, w, string(w.bob.lane))
		}},
		{"a lane that nobody has: the baseline, counted", seeUnknown},
		{"a malformed tag: alice's proxy refuses it", seeMalformed},
		{"a host outside the registry gets no tag", seeOutside},
		{"alice stops her process: an error, never a silent fallback", seeStopped},
		{"meanwhile nobody else notices", seeUntagged},
		{"she starts it again: her lane serves again", seeStarted},
		{"her session ends: nothing of it is left in the registry", seeGone},
		{"her tag now: the baseline, and it is said", seeAfter},
		{"bob's lane was not touched", seeBob},
		{"his ends too: the registry is as it was before", seeBefore},
	}
}

func seeRegistry(ctx context.Context, w *World) (string, error) {
	var leader string
	if err := w.api(ctx, http.MethodGet, "/v1/status/leader", nil, &leader); err != nil {
		return "", err
	}
	if leader == "" {
		return w.address, fmt.Errorf("it names no leader")
	}
	return w.address + " (speaks Consul's HTTP API)", nil
}

func seeBaseline(ctx context.Context, w *World) (string, error) {
	names, err := w.client.Services(ctx)
	if err != nil {
		return "", err
	}
	var seen []string
	for _, s := range shopOrder {
		var found []struct {
			Service struct {
				ID   string
				Port int
				Meta map[string]string
			}
		}
		if err := w.api(ctx, http.MethodGet, "/v1/health/service/"+s.name+"?passing", nil, &found); err != nil {
			return "", err
		}
		for _, f := range found {
			if f.Service.ID == s.name+"-1" && slices.Contains(names, s.name) && f.Service.Meta["lane"] == "" {
				seen = append(seen, fmt.Sprintf("%s:%d", s.name, f.Service.Port))
			}
		}
	}
	if len(seen) != len(shopOrder) {
		return strings.Join(seen, ", "), fmt.Errorf("expected %d healthy services", len(shopOrder))
	}
	return strings.Join(seen, ", "), nil
}

func seeLanes(ctx context.Context, w *World) (string, error) {
	claims, err := w.client.Claims(ctx, "")
	if err != nil {
		return "", err
	}
	instances, err := w.client.LaneInstances(ctx, "")
	if err != nil {
		return "", err
	}
	var seen []string
	for _, c := range claims {
		for _, in := range instances[c.Service] {
			if in.MetaLane == string(c.Lane) && in.Health == lane.Passing {
				seen = append(seen, c.Service+" in "+string(c.Lane))
			}
		}
	}
	return is(strings.Join(seen, ", "), "reviews in dev-alice, ratings in dev-bob")
}

// chain asks the shop for its page as a browser would, with a tag, and checks
// who took part.
func (w *World) chain(ctx context.Context, tag, want string) (answer, string, error) {
	a, err := w.people.get(ctx, "http://"+w.shop[productpage].addr+"/productpage/7", tag)
	if err != nil {
		return a, "", err
	}
	seen, err := is(a.Page.Chain(), want)
	if d := a.Page.called(details); err == nil && (d == nil || d.By != baseline) {
		err = fmt.Errorf("details were not served by the baseline")
	}
	return a, seen, err
}

func seeUntagged(ctx context.Context, w *World) (string, error) {
	_, seen, err := w.chain(ctx, "", chainBase)
	return seen, err
}

func seeAlice(ctx context.Context, w *World) (string, error) {
	_, seen, err := w.chain(ctx, string(w.alice.lane), chainAlice)
	return seen, err
}

func seeBob(ctx context.Context, w *World) (string, error) {
	_, seen, err := w.chain(ctx, string(w.bob.lane), chainBob)
	return seen, err
}

func seeDifference(ctx context.Context, w *World) (string, error) {
	hers, _, err := w.chain(ctx, string(w.alice.lane), chainAlice)
	if err != nil {
		return "", err
	}
	others, _, err := w.chain(ctx, "", chainBase)
	if err != nil {
		return "", err
	}
	h, o := hers.Page.called(reviews).Says, others.Page.called(reviews).Says
	seen := fmt.Sprintf("%q, to all others %q", h, o)
	if h == o {
		return seen, fmt.Errorf("expected two answers")
	}
	return seen, nil
}

func seeDecision(ctx context.Context, w *World) (string, error) {
	a, err := w.alice.caller.get(ctx, "http://reviews/reviews/7", "")
	if err != nil {
		return "", err
	}
	return is(a.Decision, "LANE_MATCH; lane=dev-alice; instance="+w.alice.id())
}

// seeFallback looks at alice's own view: her page needs productpage, and her
// reviews need ratings, and her lane has neither.
func seeFallback(ctx context.Context, w *World) (string, error) {
	before, err := w.alice.counts(ctx)
	if err != nil {
		return "", err
	}
	last, _, err := w.alice.rows(ctx, 0)
	if err != nil {
		return "", err
	}
	if _, err := w.alice.caller.get(ctx, shopPage, ""); err != nil {
		return "", err
	}
	const want = 2
	var n uint64
	if err := until(ctx, callLimit, "two fallbacks are counted", func() bool {
		now, e := w.alice.counts(ctx)
		n = now.Fallbacks["lane_absent"] - before.Fallbacks["lane_absent"]
		return e == nil && n >= want
	}); err != nil {
		return fmt.Sprintf("%d counted", n), err
	}
	_, rows, err := w.alice.rows(ctx, last)
	if err != nil {
		return "", err
	}
	for i := range rows {
		if e := &rows[i]; e.Service == ratings && e.Fallback() && n == want {
			return is(fmt.Sprintf("%d x lane_absent; %s", n, traffic.Why(e)), "2 x lane_absent; no instance of ratings in lane dev-alice")
		}
	}
	return fmt.Sprintf("%d counted", n), fmt.Errorf("expected 2, and a row for ratings")
}

func seeTrace(ctx context.Context, w *World) (string, error) {
	a, _, err := w.chain(ctx, string(w.alice.lane), chainAlice)
	if err != nil {
		return "", err
	}
	n, first := 0, a.Page
	a.Page.all(func(p *page) {
		if p.Request == first.Request && p.Trace == first.Trace && p.Trace != "" && p.Request != "" {
			n++
		}
	})
	return is(fmt.Sprintf("one trace id and one request id at %d services", n), "one trace id and one request id at 4 services")
}

// seeMix sends tagged and untagged requests all at once.
func seeMix(ctx context.Context, w *World) (string, error) {
	kinds := []struct{ tag, want string }{{string(w.alice.lane), chainAlice}, {string(w.bob.lane), chainBob}, {"", chainBase}}
	const each = 8
	errs := make([]error, each*len(kinds))
	var all sync.WaitGroup
	for i := range errs {
		k := kinds[i%len(kinds)]
		all.Go(func() {
			_, seen, err := w.chain(ctx, k.tag, k.want)
			if err != nil {
				errs[i] = fmt.Errorf("tag %q: %s: %w", k.tag, seen, err)
			}
		})
	}
	all.Wait()
	right := 0
	var first error
	for _, err := range errs {
		if err == nil {
			right++
		} else if first == nil {
			first = err
		}
	}
	return fmt.Sprintf("8 of alice's, 8 of bob's, 8 without: %d went the right way", right), first
}

// seeBounce asks alice's guard, where callers that know no lanes end up too.
func seeBounce(ctx context.Context, w *World, tag string) (string, error) {
	counts, err := w.alice.counts(ctx)
	if err != nil {
		return "", err
	}
	before := w.alice.local.served.Load()
	a, err := w.people.get(ctx, "http://"+w.alice.status.Services[0].Guard+"/reviews/7", tag)
	if err != nil {
		return "", err
	}
	calls := w.alice.local.served.Load() - before
	if err := until(ctx, callLimit, "the guard counts it", func() bool {
		now, e := w.alice.counts(ctx)
		return e == nil && now.Guard[traffic.GuardBounced] == counts.Guard[traffic.GuardBounced]+1
	}); err != nil {
		return "", err
	}
	// Whether bob's ratings then serve it is bob's affair: the tag stays on it.
	by := "nobody"
	if a.Page != nil {
		by = a.Page.Service + "(" + a.Page.By + ")"
	}
	return is(fmt.Sprintf("%s by %s, her process called %d times", a.Guard, by, calls), "bounced by reviews(baseline), her process called 0 times")
}

func seeUnknown(ctx context.Context, w *World) (string, error) {
	before, err := w.alice.counts(ctx)
	if err != nil {
		return "", err
	}
	a, err := w.alice.caller.get(ctx, shopPage, "dev-nobody")
	if err != nil {
		return "", err
	}
	if seen, err := is(a.Page.Chain(), chainBase); err != nil {
		return seen, err
	}
	if err := until(ctx, callLimit, "it is counted", func() bool {
		now, e := w.alice.counts(ctx)
		return e == nil && now.Fallbacks["lane_absent"] == before.Fallbacks["lane_absent"]+1
	}); err != nil {
		return a.Decision, err
	}
	return is(a.Decision, "FALLBACK_BASELINE; lane=dev-nobody; reason=lane_absent; instance=productpage-1")
}

func seeMalformed(ctx context.Context, w *World) (string, error) {
	a, err := w.alice.caller.get(ctx, shopPage, "Dev Alice!")
	if err != nil {
		return "", err
	}
	return is(fmt.Sprintf("%d %s", a.Status, a.Code), "400 "+string(lane.CodeTagInvalid))
}

// seeOutside sends a tag on purpose: it has to be taken away, and the rest of
// the baggage has to arrive.
func seeOutside(ctx context.Context, w *World) (string, error) {
	a, err := w.alice.caller.with(ctx, "http://"+w.outside.addr+"/", http.Header{
		lane.HeaderTag: {string(w.alice.lane)}, "Baggage": {"user=7,lane=" + string(w.alice.lane)}})
	if err != nil {
		return "", err
	}
	got := w.outside.got()
	for k := range got {
		if strings.Contains(strings.ToLower(k), "lane") {
			return k, fmt.Errorf("expected no header of lane's")
		}
	}
	if kind, _, _ := strings.Cut(a.Decision, ";"); kind != string(lane.KindExternal) {
		return a.Decision, fmt.Errorf("expected %s", lane.KindExternal)
	}
	return is(fmt.Sprintf("it got baggage %q and no tag", got.Get("Baggage")), `it got baggage "user=7" and no tag`)
}

// seeStopped asks all the while: an answer of the baseline in alice's place
// would be the silent fallback.
func seeStopped(ctx context.Context, w *World) (string, error) {
	before := w.shop[reviews].served.Load()
	if err := w.alice.local.stop(); err != nil {
		return "", err
	}
	var a answer
	var asked int
	var err error
	if e := until(ctx, startLimit, "the registry tells that it is not healthy", func() bool {
		a, err = w.alice.caller.get(ctx, "http://reviews/reviews/7", "")
		asked++
		return err != nil || a.Status == http.StatusOK || a.Code == string(lane.CodeLaneUnhealthy)
	}); e != nil {
		return a.Code, e
	}
	if err != nil {
		return "", err
	}
	// And so say the engines of the baseline, on the way of a whole page.
	var chain string
	if e := until(ctx, startLimit, "the baseline's engines say so too", func() bool {
		chain = ""
		p, e := w.people.get(ctx, "http://"+w.shop[productpage].addr+"/productpage/7", string(w.alice.lane))
		if e == nil {
			chain = p.Page.Chain()
		}
		return strings.HasSuffix(chain, string(lane.CodeLaneUnhealthy))
	}); e != nil {
		return chain, e
	}
	return is(fmt.Sprintf("%d %s, the baseline's reviews called %d times", a.Status, a.Code, w.shop[reviews].served.Load()-before),
		"503 E_LANE_UNHEALTHY, the baseline's reviews called 0 times")
}

func seeStarted(ctx context.Context, w *World) (string, error) {
	began := w.o.Now()
	if err := w.alice.local.start(); err != nil {
		return "", err
	}
	var seen string
	var err error
	if e := until(ctx, startLimit, "her lane serves again", func() bool {
		_, seen, err = w.chain(ctx, string(w.alice.lane), chainAlice)
		return err == nil
	}); e != nil {
		return seen, e
	}
	return fmt.Sprintf("reviews(dev-alice) after %d ms", w.o.Now().Sub(began).Round(time.Millisecond).Milliseconds()), nil
}

func seeGone(ctx context.Context, w *World) (string, error) {
	if err := w.alice.end(ctx); err != nil {
		return "", err
	}
	p, err := w.picture(ctx)
	if err != nil {
		return "", err
	}
	if strings.Contains(p, string(w.alice.lane)) {
		return p, fmt.Errorf("expected no word of dev-alice")
	}
	return "no instance, no check, no claim, no session of dev-alice", nil
}

func seeAfter(ctx context.Context, w *World) (string, error) {
	a, seen, err := w.chain(ctx, string(w.alice.lane), chainBase)
	if err != nil {
		return seen, err
	}
	for _, c := range a.Page.Calls {
		if c.Service == reviews {
			return is(c.Decision, "FALLBACK_BASELINE; lane=dev-alice; reason=lane_absent; instance=reviews-1")
		}
	}
	return seen, fmt.Errorf("reviews were not called")
}

func seeBefore(ctx context.Context, w *World) (string, error) {
	if err := w.bob.end(ctx); err != nil {
		return "", err
	}
	p, err := w.picture(ctx)
	if err != nil {
		return "", err
	}
	if p != w.before {
		return p, fmt.Errorf("expected what it held before the lanes")
	}
	return "four services, nothing else", nil
}

// id is the instance's ID in the registry.
func (m *member) id() string { return m.status.Services[0].ID }

// counts are the session's counts now.
func (m *member) counts(ctx context.Context) (control.Counts, error) {
	st, err := m.view.Status(ctx)
	return st.Counts, err
}

// rows are the exchanges after a sequence number, and the newest one's.
func (m *member) rows(ctx context.Context, after uint64) (uint64, []traffic.Exchange, error) {
	rows, _, err := m.view.Next(ctx, after)
	if err != nil || len(rows) == 0 {
		return after, nil, err
	}
	return rows[len(rows)-1].Seq, rows, nil
}
