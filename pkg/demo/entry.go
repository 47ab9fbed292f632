package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lane/pkg/admin"
	"lane/pkg/lane"
)

// visitor is somebody in front of the gateway: a browser, which knows no lanes.
type visitor struct {
	user   string // the cookie; empty: none
	tester string // the header
	query  string
	tag    string // a lane that it names itself, which nobody believes
}

var (
	nobody     = visitor{}
	asDev2     = visitor{user: laneAlice}
	asTester   = visitor{tester: "bob"}
	previewing = visitor{query: "?preview=ratings"}
)

// visit asks the gateway for a path.
func (w *World) visit(ctx context.Context, v visitor, path string) (answer, error) {
	cookie := ""
	if v.user != "" {
		cookie = userCookie + "=" + v.user
	}
	return w.people.get(ctx, w.entry+path+v.query, "Cookie", cookie, testerHeader, v.tester, lane.HeaderTag, v.tag)
}

// chain asks for the shop's page, and checks who took part.
func (w *World) chain(ctx context.Context, v visitor, want string) (answer, string, error) {
	a, err := w.visit(ctx, v, "/productpage/7")
	if err != nil {
		return a, "", err
	}
	seen, err := is(a.Page.Chain(), want)
	return a, seen, err
}

// sees makes a step of a visitor and the chain that is to serve him.
func sees(v visitor, want string) func(context.Context, *World) (string, error) {
	return func(ctx context.Context, w *World) (string, error) {
		_, seen, err := w.chain(ctx, v, want)
		return seen, err
	}
}

func seeGateway(ctx context.Context, w *World) (string, error) {
	a, err := w.visit(ctx, nobody, hello)
	if err != nil {
		return "", err
	}
	rev, err := w.rev(ctx)
	if err != nil {
		return "", err
	}
	_, err = is(fmt.Sprintf("%s, revision %d in its answers, %d at its admin port", w.entry, number(a.Rev), rev.Revision),
		fmt.Sprintf("%s, revision 1 in its answers, 1 at its admin port", w.entry))
	return w.entry + ", revision 1 of the rules", err
}

// rev is what the gateway's admin port says of the rules.
func (w *World) rev(ctx context.Context) (admin.Rev, error) {
	var r admin.Rev
	gateway := w.routers[len(w.routers)-1]
	a, err := w.people.get(ctx, "http://"+gateway.admin.Addr()+"/rev")
	if err == nil {
		err = json.Unmarshal(a.Body, &r)
	}
	return r, err
}

// number is a revision as a header has it, 0 if it is none.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// share asks the gateway as each user, and returns those who get lane canary.
func (w *World) share(ctx context.Context) ([]string, error) {
	const askers = 8
	lanes, errs := make([]string, users), make([]error, askers)
	var all sync.WaitGroup
	for k := range askers {
		all.Go(func() {
			for n := k; n < users; n += askers {
				a, err := w.visit(ctx, visitor{user: user(n + 1)}, hello)
				if err == nil && a.Status != http.StatusOK {
					err = fmt.Errorf("%s got %d %s", user(n+1), a.Status, a.Code)
				}
				if err != nil {
					errs[k] = err
					return
				}
				lanes[n] = field(a.Decision, "lane")
			}
		})
	}
	all.Wait()
	var in []string
	for n, l := range lanes {
		if l == laneNext {
			in = append(in, user(n+1))
		}
	}
	return in, errors.Join(errs...)
}

// seeShare holds the gateway's users to those whom the hash names.
func (w *World) seeShare(ctx context.Context, percent int) (string, error) {
	in, err := w.share(ctx)
	if err != nil {
		return "", err
	}
	want := shareOf(percent)
	seen := fmt.Sprintf("%d of %d users: %s ...", len(in), users, strings.Join(in[:min(len(in), 3)], " "))
	if !slices.Equal(in, want) {
		return seen, fmt.Errorf("expected %d: %s", len(want), strings.Join(want, " "))
	}
	return seen, nil
}

func seeFivePercent(ctx context.Context, w *World) (string, error) {
	return w.seeShare(ctx, sharePercent)
}

// seeNext visits the shop as each user of the share.
func seeNext(ctx context.Context, w *World) (string, error) {
	var seen string
	var err error
	for _, u := range shareOf(sharePercent) {
		if _, seen, err = w.chain(ctx, visitor{user: u}, chainNext); err != nil {
			return u + ": " + seen, err
		}
	}
	return seen, nil
}

func seeUntrusted(ctx context.Context, w *World) (string, error) {
	a, _, err := w.chain(ctx, visitor{tag: laneAlice}, chainBase)
	if err != nil {
		return a.Decision, err
	}
	return is("X-Lane-Warning: "+a.Warning+", served by the baseline", "X-Lane-Warning: tag_rejected:untrusted, served by the baseline")
}

// seeTrace looks at what arrived at ratings: its caller has passed on nothing but
// the request's id, and the tag is there.
func seeTrace(ctx context.Context, w *World) (string, error) {
	for _, c := range []struct {
		v     visitor
		chain string
		tag   string
	}{{asDev2, chainAlice, laneAlice}, {asTester, chainBob, laneBob}} {
		a, seen, err := w.chain(ctx, c.v, c.chain)
		if err != nil {
			return seen, err
		}
		n := 1
		a.Page.all(func(call *call) {
			if call.Page != nil && call.Page.Request == a.Page.Request && a.Page.Request != "" && call.Page.Tag == c.tag {
				n++
			}
		})
		if seen, err := is(fmt.Sprintf("%d services got it, with tag %s", n, c.tag), "4 services got it, with tag "+c.tag); err != nil {
			return seen, err
		}
	}
	return "one id, and the tag beside it, at all 4 services", nil
}

// applied waits until the gateway's answers name a revision.
func (w *World) applied(ctx context.Context, revision int) (time.Duration, error) {
	began := w.o.Now()
	err := until(ctx, startLimit, fmt.Sprintf("the gateway answers by revision %d", revision), func() bool {
		a, err := w.visit(ctx, nobody, hello)
		return err == nil && number(a.Rev) == revision
	})
	return w.o.Now().Sub(began).Round(time.Millisecond), err
}

func seePush(ctx context.Context, w *World) (string, error) {
	n, err := w.push(ctx, document(morePercent), "half of the users")
	if err != nil {
		return "", err
	}
	took, err := w.applied(ctx, n)
	if err != nil {
		return "", err
	}
	seen, err := w.seeShare(ctx, morePercent)
	if err != nil {
		return seen, err
	}
	for _, u := range shareOf(sharePercent) {
		if !inShare(u, morePercent) {
			return seen, fmt.Errorf("%s was in, and is not any more", u)
		}
	}
	return fmt.Sprintf("revision %d after %d ms; %s, all from before among them", n, took.Milliseconds(), seen), nil
}

func seeBroken(ctx context.Context, w *World) (string, error) {
	good, err := w.active(ctx)
	if err != nil {
		return "", err
	}
	n, err := w.push(ctx, "rules: [ nonsense", "a mistake, as no `lane rules push` lets it through")
	if err != nil {
		return "", err
	}
	var rev admin.Rev
	if e := until(ctx, startLimit, "the gateway refuses it", func() bool {
		rev, err = w.rev(ctx)
		return err != nil || rev.Refused == n
	}); e != nil || err != nil {
		return "", errors.Join(e, err)
	}
	a, err := w.visit(ctx, nobody, hello)
	if err != nil {
		return "", err
	}
	return is(fmt.Sprintf("revision %d is refused, revision %s still holds", rev.Refused, a.Rev),
		fmt.Sprintf("revision %d is refused, revision %d still holds", n, good))
}

func seeRollback(ctx context.Context, w *World) (string, error) {
	base, err := w.active(ctx)
	if err != nil {
		return "", err
	}
	r, _, err := w.client.RollbackRules(ctx, 1, w.draft(base, "", "back to the first rules"))
	if err != nil {
		return "", err
	}
	if _, err := w.applied(ctx, r.Revision); err != nil {
		return "", err
	}
	seen, err := w.seeShare(ctx, sharePercent)
	return fmt.Sprintf("revision %d, which is revision %d again; %s", r.Revision, r.RollbackOf, seen), err
}

// seeKill kills alice's lane: each gateway and sidecar on the way has to know it.
func seeKill(ctx context.Context, w *World) (string, error) {
	if _, _, err := w.client.Kill(ctx, laneAlice, false, false); err != nil {
		return "", err
	}
	var a answer
	var err error
	if e := until(ctx, startLimit, "every router has heard of it", func() bool {
		if a, err = w.visit(ctx, asDev2, "/productpage/7"); err != nil {
			return true
		}
		killed := kind(a.Decision) == string(lane.KindKillSwitch)
		a.Page.all(func(c *call) { killed = killed && kind(c.Decision) == string(lane.KindKillSwitch) })
		return killed
	}); e != nil || err != nil {
		return a.Page.Chain(), errors.Join(e, err)
	}
	if err := w.alice.hears(ctx, lane.KindKillSwitch); err != nil {
		return "", err
	}
	before := w.alice.local.total()
	a, seen, err := w.chain(ctx, asDev2, chainBase)
	if err != nil {
		return seen, err
	}
	return is(fmt.Sprintf("%s; her process called %d times, tag %s passed on to ratings", kind(a.Decision), w.alice.local.total()-before, a.Page.called(ratings).Tag),
		string(lane.KindKillSwitch)+"; her process called 0 times, tag "+laneAlice+" passed on to ratings")
}

// servesAgain waits until alice's lane is where her requests go.
func (w *World) servesAgain(ctx context.Context) (seen string, err error) {
	e := until(ctx, startLimit, "her lane serves again", func() bool {
		_, seen, err = w.chain(ctx, asDev2, chainAlice)
		return err == nil
	})
	return seen, e
}

func seeUnkill(ctx context.Context, w *World) (string, error) {
	if _, _, err := w.client.Unkill(ctx, laneAlice, false, false); err != nil {
		return "", err
	}
	seen, err := w.servesAgain(ctx)
	if err != nil {
		return seen, err
	}
	return seen, w.alice.hears(ctx, lane.KindLaneMatch)
}

// hears waits until the session's own proxy decides so, too: it has a watch of its
// own, and what comes next begins there.
func (m *member) hears(ctx context.Context, want lane.Kind) error {
	return until(ctx, startLimit, fmt.Sprintf("the proxy of %s decides %s", m.lane, want), func() bool {
		a, err := m.caller.get(ctx, "http://"+m.service+"/"+m.service+"/7")
		return err == nil && kind(a.Decision) == string(want)
	})
}

// seeMix sends visitors of every kind all at once.
func seeMix(ctx context.Context, w *World) (string, error) {
	kinds := []struct {
		v    visitor
		want string
	}{{nobody, chainBase}, {asDev2, chainAlice}, {asTester, chainBob}, {previewing, chainBob}, {visitor{user: shareOf(sharePercent)[0]}, chainNext}}
	const each = 5
	errs := make([]error, each*len(kinds))
	var all sync.WaitGroup
	for i := range errs {
		k := kinds[i%len(kinds)]
		all.Go(func() {
			_, seen, err := w.chain(ctx, k.v, k.want)
			if err != nil {
				errs[i] = fmt.Errorf("%+v: %s: %w", k.v, seen, err)
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
	return fmt.Sprintf("%d of %d went the right way", right, len(errs)), first
}

// customers are visitors whom no rule wants. They come for as long as a tour
// lasts, and must notice nothing of it.
type customers struct {
	mu     sync.Mutex
	asked  int
	failed int
	first  string // what the first one saw who noticed
}

// customersEvery is between two of them.
const customersEvery = 25 * time.Millisecond

// comeAndGo sends them until ctx ends.
func (w *World) comeAndGo(ctx context.Context) error {
	tick := time.NewTicker(customersEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		v := nobody
		if n%2 == 0 {
			v.user = notIn(morePercent)
		}
		_, seen, err := w.chain(ctx, v, chainBase)
		if ctx.Err() != nil {
			return nil
		}
		w.customers.note(seen, err)
	}
}

func (c *customers) note(seen string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked++; err == nil {
		return
	}
	if c.failed++; c.first == "" {
		c.first = strings.TrimPrefix(seen+": "+err.Error(), ": ")
	}
}

func (c *customers) came() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked > 0
}

func seeCustomers(ctx context.Context, w *World) (string, error) {
	c := &w.customers
	if err := until(ctx, startLimit, "customers come", c.came); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed > 0 {
		return fmt.Sprintf("%d of %d pages went wrong", c.failed, c.asked), errors.New(c.first)
	}
	return fmt.Sprintf("%d pages, each of the baseline alone", c.asked), nil
}

// seeStrays asks the local processes themselves.
func seeStrays(_ context.Context, w *World) (string, error) {
	var seen []string
	for _, m := range w.members() {
		with, without := m.local.counts(string(m.lane))
		if with == 0 || without > 0 {
			return fmt.Sprintf("%s of %s: %d with its tag, %d without", m.service, m.lane, with, without), errors.New("expected some, and 0")
		}
		seen = append(seen, fmt.Sprintf("%s %d", m.lane, with))
	}
	return strings.Join(seen, ", ") + "; 0 others", nil
}
