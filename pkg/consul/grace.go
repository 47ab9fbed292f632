package consul

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lane/pkg/lane"
)

// After an outage of the registry, as this router has seen it, what is missing from
// its first answers is no proof that somebody has gone. An agent that was stopped has
// let checks expire that nobody could beat; one that has lost its data knows nothing
// until everybody has registered again. Requests went on by what was known before,
// and go on so for a grace more, in which those who live come back.
//
// What somebody says of himself counts at once: a new instance, another address, that
// he drains, that his process has closed its port.

// inGrace reports whether what is missing from a source's answer still counts. It
// does so once for each thing that is missing, however often the registry fails.
func (l *loop) inGrace(s *source, now time.Time) bool {
	in := func(since time.Time) bool { return now.Sub(since) < l.w.o.Grace }
	return in(l.unwell) && (s.keeps.IsZero() || in(s.keeps))
}

// accept makes a source's new answer the one that counts, with what the grace keeps.
func (l *loop) accept(s *source, now time.Time) {
	next, keeps := s.told, time.Time{}
	if s.answered {
		var ins, claims bool
		outage := l.inGrace(s, now)
		waits := s.keeps.IsZero() || now.Sub(s.keeps) < l.w.o.Grace
		next.instances, ins = keepInstances(s.answer.instances, s.told.instances, outage, func(in *lane.Instance) bool {
			return outage || waits && l.promised(in)
		})
		if outage {
			next.claims, claims = keepClaims(s.answer.claims, s.told.claims)
		}
		switch {
		case !ins && !claims:
		case s.keeps.IsZero():
			keeps = now
		default:
			keeps = s.keeps
		}
	}
	s.keeps = keeps
	s.seen(next.instances, now)
	s.answer = next
	l.touch(s)
}

// promised reports whether a claim stands that names the instance. Whoever ends gives
// his claim up first, or writes into it that he takes the instance out, as a relay does
// whose laptops are to come back; and whoever dies stops beating: an instance that was
// well, and goes before that, was lost by its agent, or with it, and registers again.
func (l *loop) promised(in *lane.Instance) bool {
	return in.Health == lane.Passing && slices.ContainsFunc(l.declared.answer.claims, func(c lane.Claim) bool {
		return c.ID == in.ID && c.Session != "" && !c.Vacant && string(c.Lane) == in.MetaLane
	})
}

// review lets go of what is kept for no reason any more: nobody has come back for it,
// or its claim has gone too.
func (l *loop) review(now time.Time) {
	for _, s := range l.all() {
		if !s.keeps.IsZero() {
			l.accept(s, now)
		}
	}
}

// keepInstances are the instances of an answer, and those of before that it lacks or
// of which, after an outage, it only says that nobody has spoken for them. keep says
// whether one that is missing, or whose agent is, is one of them.
func keepInstances(before, told []lane.Instance, outage bool, keep func(*lane.Instance) bool) (all []lane.Instance, kept bool) {
	type key struct{ id, node string }
	now := make(map[key]int, len(told))
	for i := range told {
		now[key{told[i].ID, told[i].Node}] = i
	}
	all = slices.Clone(told)
	for n := range before {
		old := before[n]
		i, there := now[key{old.ID, old.Node}]
		switch {
		case !there && !old.Draining && keep(&before[n]):
			all, kept = append(all, old), true
		case there && old.Health < told[i].Health && old.Addr == told[i].Addr &&
			(outage && unspoken(told[i].HealthNote) || agentLost(told[i].HealthNote) && keep(&before[n])):
			all[i].Health, all[i].HealthNote, kept = old.Health, old.HealthNote, true
		}
	}
	if kept {
		slices.SortFunc(all, func(a, b lane.Instance) int {
			return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Node, b.Node))
		})
	}
	return all, kept
}

// keepClaims are the claims of an answer, and those of before that it lacks.
func keepClaims(before, told []lane.Claim) (all []lane.Claim, kept bool) {
	all = slices.Clone(told)
	for _, old := range before {
		same := func(c lane.Claim) bool { return c.Lane == old.Lane && c.Service == old.Service }
		if old.Session != "" && !slices.ContainsFunc(told, same) {
			all, kept = append(all, old), true
		}
	}
	if kept {
		slices.SortFunc(all, func(a, b lane.Claim) int {
			return cmp.Or(strings.Compare(string(a.Lane), string(b.Lane)), strings.Compare(a.Service, b.Service))
		})
	}
	return all, kept
}

// unspoken reports whether a check is critical only because nobody has said anything:
// its time has run out, it was made a moment ago, or its agent was not there.
func unspoken(note string) bool {
	return note == liveName || note == appNotes || strings.HasPrefix(note, "TTL expired") || agentLost(note)
}

// agentLost reports whether an instance is critical because its agent has gone, which
// says nothing of the instance: while it lives, it cannot beat there.
func agentLost(note string) bool { return strings.HasPrefix(note, "Agent not live or unreachable") }
