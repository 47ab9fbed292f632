package consul

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"lane/pkg/lane"
)

// source is one watched thing as the loop knows it.
type source struct {
	*watch
	stop context.CancelFunc

	answer    answer    // the one that counts
	told      answer    // the registry's last one
	keeps     time.Time // since when answer has more than told, for a grace; zero: it has not
	answered  bool      // at least once
	err       error
	failing   time.Time // since when; zero while it answers
	due       uint64    // the start whose answer is new enough; those before it were before an outage
	behind    bool      // the registry was away, and this has not answered since
	firstSeen map[string]time.Time
}

// outcome reports whether there is anything to go on: an answer or a failure.
func (s *source) outcome() bool { return s.answered || s.err != nil }

// service is one needed service as the loop knows it.
type service struct {
	need  *need
	built *lane.Service // nil: to be built anew
}

// loop is the state of a Watcher's Run; one goroutine uses it.
type loop struct {
	w        *Watcher
	wg       sync.WaitGroup
	events   chan event
	declared *source
	switches *source
	names    map[string]*source  // by name in the registry
	services map[string]*service // by service
	leader   leaderState
	dirty    bool      // something but trust has changed
	away     time.Time // since when an outage lasts that has been told; zero: none
	unwell   time.Time // the last failure of the registry; zero: none
}

// Run watches until ctx ends, and then returns nil. It may be called once.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{w: w, events: make(chan event, 16), names: map[string]*source{}, services: map[string]*service{}}
	defer l.wg.Wait()
	defer cancel()
	defer func() {
		w.mu.Lock()
		w.stopped = true
		w.mu.Unlock()
		close(w.done)
	}()

	asks := make(chan leaderAnswer)
	l.wg.Go(func() { w.askLeader(ctx, asks) })
	l.declared = l.start(ctx, "claims", w.c.askClaims)
	l.switches = l.start(ctx, "switches", w.c.askSwitches)
	tick := time.NewTicker(w.o.LeaderEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-l.events:
			l.take(e)
			for more := true; more; { // one catalog for all that is here
				select {
				case e := <-l.events:
					l.take(e)
				default:
					more = false
				}
			}
		case a := <-asks:
			l.ask(a)
		case <-w.wake:
			l.adopt()
		case <-tick.C:
			if now := w.o.Now().UnixNano(); now-w.clock.Swap(now) > int64(w.o.LeaderEvery+sleptFor) {
				l.startOver() // this machine slept, and its connections may be dead
			}
			l.retire()
			l.makeRoom()
			l.review(w.o.Now())
		}
		l.reconcile(ctx)
		l.publish()
		l.settle()
	}
}

// sleptFor is how late a tick must be for this machine to have slept.
const sleptFor = 15 * time.Second

func (l *loop) start(ctx context.Context, key string, f ask) *source {
	ctx, cancel := context.WithCancel(ctx)
	s := &source{watch: &watch{key: key, index: &l.w.index, starts: newStarts()}, stop: cancel}
	l.wg.Go(func() { s.run(ctx, l.w.o, f, l.events) })
	return s
}

// source finds an event's source; nil when its watch has been ended.
func (l *loop) source(w *watch) *source {
	for _, s := range l.all() {
		if s.watch == w {
			return s
		}
	}
	return nil
}

func (l *loop) all() []*source {
	out := make([]*source, 0, len(l.names)+2)
	out = append(out, l.declared, l.switches)
	for _, s := range l.names {
		out = append(out, s)
	}
	return out
}

// take applies one event.
func (l *loop) take(e event) {
	s := l.source(e.w)
	if s == nil {
		return
	}
	now := l.w.o.Now()
	wasDenied := isDenied(s.err)
	if e.err != nil {
		s.err = e.err
		if !isDenied(e.err) {
			l.unwell = now
		}
		if s.failing.IsZero() {
			s.failing = now
			l.touch(s)
		}
		if isDenied(e.err) != wasDenied {
			l.touch(s) // a denied answer is known to be cut
		}
		return
	}
	s.err, s.failing = nil, time.Time{}
	s.behind = s.behind && e.start < s.due
	if e.rebuilt {
		l.unwell = now
	}
	if e.changed || wasDenied {
		if s == l.switches {
			e.answer = l.readable(e.answer)
		}
		s.told = e.answer
		if l.accept(s, now); s == l.declared {
			l.review(now)
		}
	}
	s.answer.contact = e.answer.contact
	s.answered = true
}

// seen sets when each instance was first seen: unknown for those of the first
// answer, and for ever the same while it stays.
func (s *source) seen(ins []lane.Instance, now time.Time) {
	next := make(map[string]time.Time, len(ins))
	for i := range ins {
		id := ins[i].Node + "/" + ins[i].ID
		at, known := s.firstSeen[id]
		if !known && s.answered {
			at = now
		}
		next[id] = at
	}
	s.firstSeen = next
}

// touch marks what depends on a source as to be built anew.
func (l *loop) touch(s *source) {
	l.dirty = true
	for name, svc := range l.services {
		if s == l.declared || s.key == name || slices.Contains(l.isolated(name), s.key) {
			svc.built = nil
		}
	}
}

// adopt starts to watch what has been asked for.
func (l *loop) adopt() {
	l.w.mu.Lock()
	pending := l.w.pending
	l.w.pending = nil
	l.w.mu.Unlock()
	for _, n := range pending {
		l.services[n.service] = &service{need: n}
	}
	l.makeRoom()
}

// isolated returns the names under which lanes hold the service in isolation.
// Only a standing claim names one, so that a made-up tag starts no watch.
func (l *loop) isolated(name string) []string {
	var out []string
	for _, cl := range l.declared.answer.claims {
		if cl.Service == name && cl.Session != "" && cl.Registered != cl.Service {
			out = append(out, cl.Registered)
		}
	}
	return out
}

// reconcile starts and ends watches so that exactly the needed names have one.
func (l *loop) reconcile(ctx context.Context) {
	want := map[string]bool{}
	for name := range l.services {
		want[name] = true
		for _, iso := range l.isolated(name) {
			want[iso] = true
		}
	}
	for name := range want {
		if l.names[name] == nil {
			l.names[name] = l.start(ctx, name, l.w.c.askService(name))
		}
	}
	for name, s := range l.names {
		if !want[name] {
			s.stop()
			delete(l.names, name)
		}
	}
}

// publish stores a new catalog if anything in it has changed.
func (l *loop) publish() {
	judged, err := l.judge()
	l.w.trust.Store(&judged)
	l.w.err.Store(&err)
	l.tell(judged, err) // first: who sees the end of an outage can read of it
	shown := l.leader.shown(judged, err)
	l.w.shown.Store(&shown)
	trust := judged // readers have the one that is stored
	if trust.State == lane.Fresh && shown.State != lane.Fresh {
		trust.Doubt, trust.Since = shown.State, shown.Since
	}
	old := l.w.Catalog()
	if !l.dirty {
		if trust.State != old.Trust.State || trust.Doubt != old.Trust.Doubt {
			l.w.catalog.Store(old.WithTrust(trust))
		}
		return
	}
	l.dirty = false
	built := make([]*lane.Service, 0, len(l.services))
	for name, svc := range l.services {
		if svc.built == nil {
			svc.built = l.build(name)
		}
		if svc.built != nil {
			built = append(built, svc.built)
		}
	}
	next := lane.NewCatalog(trust, l.declared.answer.claims, l.switches.answer.switches, built...)
	next.ClaimsDenied = l.declared.answer.filtered || isDenied(l.declared.err)
	next.ClaimsUnknown = !l.declared.answered || next.ClaimsDenied
	l.w.catalog.Store(next)
}

// build makes the catalog's entry of one service, nil before any outcome.
func (l *loop) build(name string) *lane.Service {
	own := l.names[name]
	if own == nil || !own.outcome() {
		return nil
	}
	ins := own.dated()
	filtered := own.answer.filtered || isDenied(own.err)
	var declared []lane.Name
	for _, cl := range l.declared.answer.claims {
		if cl.Service != name || cl.Session == "" {
			continue
		}
		declared = append(declared, cl.Lane)
		iso := l.names[cl.Registered]
		if cl.Registered == name || iso == nil {
			continue
		}
		filtered = filtered || iso.answer.filtered || isDenied(iso.err)
		for _, in := range iso.dated() {
			// The name is the lane's, but what is under it may be anybody's.
			if in.MetaLane == string(cl.Lane) && in.Local {
				ins = append(ins, in)
			}
		}
	}
	slices.SortFunc(ins, func(a, b lane.Instance) int { return strings.Compare(a.ID, b.ID) })
	svc := lane.NewService(name, ins, declared)
	svc.HasSnapshot = own.answered
	svc.ACLFiltered = filtered
	return svc
}

// dated returns a copy of the instances with their first-seen times.
func (s *source) dated() []lane.Instance {
	out := slices.Clone(s.answer.instances)
	for i := range out {
		out[i].FirstSeen = s.firstSeen[out[i].Node+"/"+out[i].ID]
	}
	return out
}

// settle lets those who wait for a first answer go on. What they will decide by
// is all of it: the instances, the claims, the switches, and whether the
// registry can be trusted.
func (l *loop) settle() {
	if !l.leader.outcome || !l.declared.outcome() || !l.switches.outcome() {
		return
	}
	for name, svc := range l.services {
		if svc.need.ok.Load() {
			continue
		}
		own := l.names[name]
		whole := own.outcome()
		for _, iso := range l.isolated(name) {
			whole = whole && l.names[iso] != nil && l.names[iso].outcome()
		}
		switch {
		case whole && own.answered:
			svc.need.settle()
		case whole:
			svc.need.fail(own.err)
		}
	}
}
