package consul

import "time"

// fixedWatches are the claims and the switches.
const fixedWatches = 2

// retire ends the watches that nobody has needed for long.
func (l *loop) retire() {
	now := l.w.clock.Load()
	for name, svc := range l.services {
		if svc.need.always {
			continue
		}
		idle := l.w.o.Idle
		if l.empty(name) {
			idle = l.w.o.IdleEmpty
		}
		if time.Duration(now-svc.need.used.Load()) > idle {
			l.drop(name)
		}
	}
}

// makeRoom keeps the number of watches bounded: all the machines behind one
// address share 200 connections to the agent. Names without instances give way
// first, so that made-up ones cannot drive out real services; a real service
// that is in use right now stays, up to twice the bound.
func (l *loop) makeRoom() {
	limit := max(l.w.o.MaxWatches-fixedWatches, 1) + l.w.always
	for len(l.services) > limit {
		victim, victimEmpty := "", false
		for name, svc := range l.services {
			own := l.names[name]
			if svc.need.always || own == nil || !own.outcome() {
				continue // or somebody waits for it
			}
			empty := l.empty(name)
			if victim == "" || empty && !victimEmpty ||
				empty == victimEmpty && svc.need.used.Load() < l.services[victim].need.used.Load() {
				victim, victimEmpty = name, empty
			}
		}
		if victim == "" {
			return
		}
		inUse := l.services[victim].need.used.Load() >= l.w.clock.Load()
		if !victimEmpty && inUse && len(l.services) <= 2*limit-l.w.always {
			return
		}
		l.drop(victim)
	}
}

func (l *loop) empty(name string) bool {
	own := l.names[name]
	if own == nil || len(own.answer.instances) > 0 {
		return false
	}
	for _, iso := range l.isolated(name) {
		if s := l.names[iso]; s != nil && len(s.answer.instances) > 0 {
			return false
		}
	}
	return true
}

func (l *loop) drop(name string) {
	l.w.forget(l.services[name].need)
	delete(l.services, name)
	l.dirty = true
}
