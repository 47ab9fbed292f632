package session

import (
	"time"

	"lane/pkg/lane"
)

// news compares two looks at a session, for its history: whether the registry answers,
// and whether each local process does.
type news struct {
	registry lane.RegistryState
	away     time.Time            // since when it does not answer
	closed   map[string]time.Time // services without a local process, and since when
}

// registryNews is what to say of the registry, "" for nothing.
func (n *news) registryNews(now lane.RegistryState, at time.Time) string {
	was := n.registry
	n.registry = now
	switch {
	case was == now:
		return ""
	case now == lane.Fresh:
		return "the registry is back after " + spell(at.Sub(n.away))
	case was == lane.Fresh:
		n.away = at
	}
	if now == lane.Stale {
		return "the registry has no leader: requests go by what was known before"
	}
	return "the registry does not answer: requests go by what was known before"
}

// processNews is the same of a service's local process; why says what is wrong.
func (n *news) processNews(service string, open bool, why string, at time.Time) string {
	since, closed := n.closed[service]
	switch {
	case open && closed:
		delete(n.closed, service)
		return service + ": the local process is back after " + spell(at.Sub(since))
	case !open && !closed:
		if n.closed == nil {
			n.closed = map[string]time.Time{}
		}
		n.closed[service] = at
		return service + ": " + why
	}
	return ""
}

// note looks once, and remembers what is new.
func (s *session) note(n *news) {
	at := s.o.Now()
	tell := func(text string) {
		if text != "" {
			s.event("%s", text)
		}
	}
	tell(n.registryNews(s.watcher.Shown().State, at))
	s.mu.Lock()
	services := s.services
	s.mu.Unlock()
	for _, v := range services {
		open, why := v.health()
		tell(n.processNews(v.o.Name, open, why, at))
	}
}
