package session

import (
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
)

// news compares two looks at a session, for its history: whether the registry answers,
// whether each local process does, and whether a kill switch is on.
type news struct {
	registry lane.RegistryState
	away     time.Time            // since when it does not answer
	closed   map[string]time.Time // services without a local process, and since when
	killed   string               // by what the lane is killed, as its status has it
	dead     time.Time            // since when
}

// registryNews is what to say of the registry.
func (n *news) registryNews(now lane.RegistryState, at time.Time) told {
	was := n.registry
	n.registry = now
	switch {
	case was == now:
		return told{}
	case now == lane.Fresh:
		return told{text: "the registry is back after " + spell(at.Sub(n.away))}
	case was == lane.Fresh:
		n.away = at
	}
	if now == lane.Stale {
		return told{"the registry has no leader: requests go by what was known before", true}
	}
	return told{"the registry does not answer: requests go by what was known before", true}
}

// processNews is the same of a service's local process; why says what is wrong.
func (n *news) processNews(service string, open bool, why string, at time.Time) told {
	since, closed := n.closed[service]
	switch {
	case open && closed:
		delete(n.closed, service)
		return told{text: service + ": the local process is back after " + spell(at.Sub(since))}
	case !open && !closed:
		if n.closed == nil {
			n.closed = map[string]time.Time{}
		}
		n.closed[service] = at
		return told{service + ": " + why, true}
	}
	return told{}
}

// switchNews is the same of the kill switches.
func (n *news) switchNews(killed string, at time.Time) told {
	was := n.killed
	n.killed = killed
	switch {
	case was == killed:
		return told{}
	case killed == "":
		return told{text: "the kill switch is off after " + spell(at.Sub(n.dead)) + ": the lane serves again"}
	case was == "":
		n.dead = at
	}
	if killed == control.KilledAll {
		return told{"the kill switch of all lanes is on: the baseline serves this one's requests", true}
	}
	return told{"the kill switch of this lane is on: the baseline serves its requests", true}
}

// note looks once, and remembers what is new.
func (s *session) note(n *news) {
	at := s.o.Now()
	s.remember(n.registryNews(s.watcher.Shown().State, at))
	s.remember(n.switchNews(killed(&s.watcher.Catalog().Switches, s.o.Lane), at))
	s.mu.Lock()
	services := s.services
	s.mu.Unlock()
	for _, v := range services {
		open, why := v.health()
		s.remember(n.processNews(v.o.Name, open, why, at))
	}
}
