package tui

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"lane/pkg/control"
	"lane/pkg/traffic"
)

// matter is something in the traffic of the last minutes that somebody should know of: an
// error of a service, and whose that was, or who was turned away by the guard.
type matter struct {
	guard   string // what it did; "" for an error
	service string
	who     string // who called, or which instance answered
	status  int
	lane    bool // it was the lane's
}

// seen is how often that was, and when at last.
type seen struct {
	n    uint64
	last time.Time
}

// mattersMost is how many of them are told apart.
const mattersMost = 50

// matters gathers them.
type matters map[matter]seen

func (m matters) add(e *traffic.Exchange) {
	k := matter{service: e.Service}
	switch {
	case e.Guard == traffic.GuardBounced, e.Guard == traffic.GuardRejected:
		k.guard, k.who = e.Guard, traffic.From(e)
	case e.Status >= 500 && e.Code == "" && e.Service != "" && e.Instance != "":
		k.who, k.status, k.lane = e.Instance, e.Status, traffic.Route(e) == traffic.RouteLane
	default:
		return
	}
	s, ok := m[k]
	if !ok && len(m) == mattersMost {
		return
	}
	m[k] = seen{s.n + 1, later(s.last, e.Start)}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// words say what it was, and how often.
func (k *matter) words(n uint64) string {
	times := ""
	if n > 1 {
		times = ", " + count(n) + " times"
	}
	switch {
	case k.guard == traffic.GuardBounced:
		return k.service + ": the guard sent " + pluralOf(n, "request") + " from " + k.who + " on to the baseline"
	case k.guard == traffic.GuardRejected:
		return k.service + ": the guard turned " + pluralOf(n, "request") + " from " + k.who + " away"
	case k.lane:
		return k.service + ": " + strconv.Itoa(k.status) + " from the lane's " + k.who + times
	}
	return k.service + ": " + strconv.Itoa(k.status) + " from the baseline's " + k.who + times + " (not your lane)"
}

// news is what happened to the session and, as of the last minutes, to its traffic, the
// newest first.
func (m *model) news() []control.Event {
	var out []control.Event
	for k, s := range m.graph.matters {
		out = append(out, control.Event{At: s.last, Level: control.LevelWarn, Text: k.words(s.n)})
	}
	slices.SortFunc(out, func(a, b control.Event) int { return cmp.Compare(a.Text, b.Text) })
	h := slices.Clone(m.status.History)
	slices.Reverse(h)
	out = append(h, out...)
	slices.SortStableFunc(out, func(a, b control.Event) int { return b.At.Compare(a.At) })
	return out
}
