package demo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// The chains of the bookshop.
const (
	chainBase  = "productpage(baseline) -> reviews(baseline) -> ratings(baseline)"
	chainAlice = "productpage(baseline) -> reviews(dev2) -> ratings(baseline)"
	chainBob   = "productpage(baseline) -> reviews(baseline) -> ratings(dev3)"
	chainNext  = "productpage(baseline) -> details(canary), reviews(baseline) -> ratings(baseline)"
)

// shopPage is the address under which a developer's own program asks for the
// shop's page.
const shopPage = "http://productpage/productpage/7"

// theTour is the tour, in its order: later steps stand on earlier ones.
func theTour() []step {
	return []step{
		{"a registry runs on this machine alone", seeRegistry},
		{"four baseline services are in it, in no lane, a sidecar before each", seeBaseline},
		{"three local processes are in a lane each", seeLanes},
		{"a gateway is the entry, and colors by the rules in the registry", seeGateway},
		{"no rule wants it: the baseline serves everything", sees(nobody, chainBase)},
		{"cookie user=dev2: alice's local reviews, all else the baseline", sees(asDev2, chainAlice)},
		{"her reviews answer differently, to her alone", seeDifference},
		{"header X-Tester: bob: the chain leaves his lane and comes back to it", sees(asTester, chainBob)},
		{"?preview=ratings: his lane, too", sees(previewing, chainBob)},
		{"5 % of the users: the very ones whom the hash names", seeFivePercent},
		{"each of them gets the next details", seeNext},
		{"services pass on x-request-id alone: the sidecars find the tag again", seeTrace},
		{"who names a lane without a rule is not believed", seeUntrusted},
		{"each response says what happened, in X-Lane-Decision", seeDecision},
		{"each fallback is counted, and shown with its reason", seeFallback},
		{"25 requests at once: no tag ever gets into another's lane", seeMix},
		{"no tag at alice's registered address: bounced, her process not called", func(ctx context.Context, w *World) (string, error) { return seeBounce(ctx, w, "") }},
		{"bob's tag at her address: bounced too", func(ctx context.Context, w *World) (string, error) {
			return seeBounce(ctx, w, laneBob)
		}},
		{"a lane that nobody has: the baseline, counted", seeUnknown},
		{"a malformed tag: alice's proxy refuses it", seeMalformed},
		{"a host outside the registry gets no tag", seeOutside},
		{"rules are pushed, 50 % in place of 5: the gateway has them", seePush},
		{"rules that cannot be loaded: the gateway keeps those that it has", seeBroken},
		{"rolled back: the same users as at first", seeRollback},
		{"lane dev2 is killed: the baseline serves it", seeKill},
		{"and unkilled: her reviews serve again", seeUnkill},
		{"alice stops her process: an error, never a silent fallback", seeStopped},
		{"meanwhile nobody else notices", sees(nobody, chainBase)},
		{"she starts it again: her lane serves again", seeStarted},
		{"customers came all the while, and noticed nothing", seeCustomers},
		{"no local process was ever asked without its lane's tag", seeStrays},
		{"alice's session ends: nothing of it is left in the registry", seeGone},
		{"her cookie now: the baseline, and it is said", seeAfter},
		{"bob's lane was not touched", sees(asTester, chainBob)},
		{"the others end too: the registry is as it was before", seeBefore},
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
			if f.Service.ID == w.shop[s.name].instance && slices.Contains(names, s.name) && f.Service.Meta["lane"] == "" {
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
	for _, m := range w.members() {
		claimed := slices.ContainsFunc(claims, func(c lane.Claim) bool { return c.Lane == m.lane && c.Service == m.service })
		for _, in := range instances[m.service] {
			if claimed && in.MetaLane == string(m.lane) && in.Health == lane.Passing {
				seen = append(seen, m.service+" in "+string(m.lane))
			}
		}
	}
	return is(strings.Join(seen, ", "), "reviews in dev2, ratings in dev3, details in canary")
}

func seeDifference(ctx context.Context, w *World) (string, error) {
	hers, _, err := w.chain(ctx, asDev2, chainAlice)
	if err != nil {
		return "", err
	}
	others, _, err := w.chain(ctx, nobody, chainBase)
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
	a, err := w.alice.caller.get(ctx, "http://reviews/reviews/7")
	if err != nil {
		return "", err
	}
	return is(a.Decision, "LANE_MATCH; lane=dev2; instance="+w.alice.id())
}

// seeFallback looks at alice's own view: her page needs productpage, and her
// reviews need ratings, and her lane has neither.
func seeFallback(ctx context.Context, w *World) (string, error) {
	before, err := w.alice.counts(ctx)
	if err != nil {
		return "", err
	}
	a, err := w.alice.caller.get(ctx, shopPage)
	if err != nil {
		return "", err
	}
	// Told by its id: what came before may be recorded only now.
	var fell []string
	if err := until(ctx, callLimit, "two fallbacks are recorded and counted", func() bool {
		fell = nil
		rows, e := w.alice.rows(ctx)
		for i := range rows {
			if r := &rows[i]; r.TraceID == a.Asked && r.Fallback() {
				fell = append(fell, traffic.Why(r))
			}
		}
		now, e2 := w.alice.counts(ctx)
		return e == nil && e2 == nil && len(fell) == 2 && now.Fallbacks["lane_absent"] >= before.Fallbacks["lane_absent"]+2
	}); err != nil {
		return strings.Join(fell, "; "), err
	}
	slices.Sort(fell)
	return is(fmt.Sprintf("%d x lane_absent; %s", len(fell), fell[1]), "2 x lane_absent; no instance of ratings in lane dev2")
}

// seeBounce asks alice's guard, where callers that know no lanes end up too.
func seeBounce(ctx context.Context, w *World, tag string) (string, error) {
	counts, err := w.alice.counts(ctx)
	if err != nil {
		return "", err
	}
	before := w.alice.local.total()
	a, err := w.people.get(ctx, "http://"+w.alice.status.Services[0].Guard+"/reviews/7", lane.HeaderTag, tag)
	if err != nil {
		return "", err
	}
	calls := w.alice.local.total() - before
	if err := until(ctx, callLimit, "the guard counts it", func() bool {
		now, e := w.alice.counts(ctx)
		return e == nil && now.Guard[traffic.GuardBounced] > counts.Guard[traffic.GuardBounced]
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
	a, err := w.alice.caller.get(ctx, shopPage, lane.HeaderTag, "dev-nobody")
	if err != nil {
		return "", err
	}
	if seen, err := is(a.Page.Chain(), chainBase); err != nil {
		return seen, err
	}
	if err := until(ctx, callLimit, "it is counted", func() bool {
		now, e := w.alice.counts(ctx)
		return e == nil && now.Fallbacks["lane_absent"] > before.Fallbacks["lane_absent"]
	}); err != nil {
		return a.Decision, err
	}
	return is(a.Decision, "FALLBACK_BASELINE; lane=dev-nobody; reason=lane_absent; instance="+w.shop[productpage].instance)
}

func seeMalformed(ctx context.Context, w *World) (string, error) {
	a, err := w.alice.caller.get(ctx, shopPage, lane.HeaderTag, "Dev Alice!")
	if err != nil {
		return "", err
	}
	return is(fmt.Sprintf("%d %s", a.Status, a.Code), "400 "+string(lane.CodeTagInvalid))
}

// seeOutside sends a tag on purpose: it has to be taken away, and the rest of
// the baggage has to arrive.
func seeOutside(ctx context.Context, w *World) (string, error) {
	a, err := w.alice.caller.get(ctx, "http://"+w.outside.addr+"/",
		lane.HeaderTag, string(w.alice.lane), "Baggage", "user=7,lane="+string(w.alice.lane))
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
	before, _ := w.shop[reviews].counts(laneAlice)
	if err := w.alice.local.stop(); err != nil {
		return "", err
	}
	var a answer
	var asked int
	var err error
	if e := until(ctx, startLimit, "the registry tells that it is not healthy", func() bool {
		a, err = w.alice.caller.get(ctx, "http://reviews/reviews/7")
		asked++
		return err != nil || a.Status == http.StatusOK || a.Code == string(lane.CodeLaneUnhealthy)
	}); e != nil {
		return a.Code, e
	}
	if err != nil {
		return "", err
	}
	// And so say the sidecars, on the way of a whole page.
	var chain string
	if e := until(ctx, startLimit, "the sidecars say so too", func() bool {
		chain = ""
		p, e := w.visit(ctx, asDev2, "/productpage/7")
		if e == nil {
			chain = p.Page.Chain()
		}
		return strings.HasSuffix(chain, string(lane.CodeLaneUnhealthy))
	}); e != nil {
		return chain, e
	}
	after, _ := w.shop[reviews].counts(laneAlice)
	return is(fmt.Sprintf("%d %s, the baseline's reviews called %d times for her", a.Status, a.Code, after-before),
		"503 E_LANE_UNHEALTHY, the baseline's reviews called 0 times for her")
}

func seeStarted(ctx context.Context, w *World) (string, error) {
	began := w.o.Now()
	if err := w.alice.local.start(); err != nil {
		return "", err
	}
	if seen, err := w.servesAgain(ctx); err != nil {
		return seen, err
	}
	return fmt.Sprintf("reviews(dev2) after %d ms", w.o.Now().Sub(began).Round(time.Millisecond).Milliseconds()), nil
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
		return p, fmt.Errorf("expected no word of dev2")
	}
	return "no instance, no check, no claim, no session of dev2", nil
}

func seeAfter(ctx context.Context, w *World) (string, error) {
	a, seen, err := w.chain(ctx, asDev2, chainBase)
	if err != nil {
		return seen, err
	}
	for _, c := range a.Page.Calls {
		if c.Service == reviews {
			return is(c.Decision, "FALLBACK_BASELINE; lane=dev2; reason=lane_absent; instance="+w.shop[reviews].instance)
		}
	}
	return seen, fmt.Errorf("reviews were not called")
}

func seeBefore(ctx context.Context, w *World) (string, error) {
	for _, m := range []*member{w.bob, w.next} {
		if err := m.end(ctx); err != nil {
			return "", err
		}
	}
	p, err := w.picture(ctx)
	if err != nil {
		return "", err
	}
	if p != w.before {
		return p, fmt.Errorf("expected what it held before the lanes")
	}
	return "four services, their sidecars and the gateway, nothing else", nil
}

// id is the instance's ID in the registry.
func (m *member) id() string { return m.status.Services[0].ID }

// counts are the session's counts now.
func (m *member) counts(ctx context.Context) (control.Counts, error) {
	st, err := m.view.Status(ctx)
	return st.Counts, err
}

// rows are the session's exchanges.
func (m *member) rows(ctx context.Context) ([]traffic.Exchange, error) {
	rows, _, err := m.view.Next(ctx, 0)
	return rows, err
}
