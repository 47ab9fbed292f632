package proxy

import (
	"slices"
	"sync"
	"time"

	"lane/pkg/lane"
)

// crossSeconds is how far back the share of requests that leave a zone looks.
const crossSeconds = 60

// crossings counts, by service, this caller's requests and those of them that left its
// zone. Nothing is counted where no decision depends on it.
type crossings struct {
	zone string // "" counts nothing
	mu   sync.RWMutex
	of   map[string]*window // only of services that have instances
}

// start begins to count, if the policy has a cap that can deny something.
func (x *crossings) start(p lane.Policy, zone string) {
	if p.Zone == lane.ZoneAffinity && (p.MinLocal > 1 || p.OnEmpty == lane.OnEmptyCap) {
		x.zone, x.of = zone, map[string]*window{}
	}
}

// window is the counts of the last seconds, one slot each.
type window struct {
	mu    sync.Mutex
	last  int64 // the second of the newest slot
	sum   slot
	slots [crossSeconds]slot
}

type slot struct{ cross, total int }

// move forgets what is too old at a time. Where a clock is put back, the newest slot
// goes on.
func (w *window) move(now time.Time) {
	s := now.Unix()
	if s-w.last >= crossSeconds {
		w.last, w.sum, w.slots = s, slot{}, [crossSeconds]slot{}
	}
	for w.last < s {
		w.last++
		old := &w.slots[w.last%crossSeconds]
		w.sum.cross, w.sum.total = w.sum.cross-old.cross, w.sum.total-old.total
		*old = slot{}
	}
}

func (w *window) add(now time.Time, cross, total int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.move(now)
	at := &w.slots[w.last%crossSeconds]
	at.cross, at.total = at.cross+cross, at.total+total
	w.sum.cross, w.sum.total = w.sum.cross+cross, w.sum.total+total
}

func (x *crossings) window(service string) *window {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.of[service]
}

// ask writes into a request what its service's window holds.
func (x *crossings) ask(req *lane.Request) {
	if x.zone == "" {
		return
	}
	if w := x.window(req.Service); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.move(req.Now)
		req.Cross, req.Total = w.sum.cross, w.sum.total
	}
}

// decided counts a request whose decision is of the service's instances, also one that
// may not leave the zone: else nothing would ever be let out where nothing is in it.
func (x *crossings) decided(req *lane.Request, d *lane.Decision) {
	if x.zone == "" || len(d.Chosen) == 0 && d.Code != lane.CodeZoneCap {
		return
	}
	w := x.window(req.Service)
	if w == nil {
		x.mu.Lock()
		if w = x.of[req.Service]; w == nil {
			w = &window{}
			x.of[req.Service] = w
		}
		x.mu.Unlock()
	}
	w.add(req.Now, 0, 1)
}

// sent counts a request that its decision let leave the zone, if it does: the set has
// the zone's own instances, too.
func (x *crossings) sent(req *lane.Request, d *lane.Decision, in *lane.Instance) (left bool) {
	if x.zone == "" || in.Zone == x.zone || !slices.ContainsFunc(d.Metrics, func(m lane.Metric) bool { return m.Name == lane.MetricCrossZone }) {
		return false
	}
	if w := x.window(req.Service); w != nil {
		w.add(req.Now, 1, 0)
	}
	return true
}
