package printer

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lane/pkg/control"
	"lane/pkg/iostreams"
)

// Status writes a session's status, one fact a line, its name first: the same
// lines on a terminal, aligned, and off it, tab-separated.
func Status(s *iostreams.IOStreams, st *control.Status) error {
	t := NewTable(s).Whole()
	t.Row(Text("lane"), As(Lane, string(st.Lane)))
	t.Row(Text("state"), As(stateRole(st.State), st.State))
	if st.Waiting != "" {
		t.Row(Text("waits for"), Text(st.Waiting))
	}
	if st.Killed != "" {
		t.Row(Text("killed"), As(Bad, st.Killed), Text(st.KilledWord()))
	}
	t.Row(Text("owner"), Text(st.Owner), Text(st.Host))
	t.Row(Text("pid"), Text(strconv.Itoa(st.PID)))
	t.Row(Text("started"), Text(when(s, st.Started)))
	t.Row(Text("proxy"), Text(st.Proxy))
	if len(st.Mitm) > 0 {
		t.Row(Text("opens"), Text(strings.Join(st.Mitm, ", ")))
	}
	if st.Log != "" {
		t.Row(Text("log"), Text(st.Log))
	}
	if st.Child != "" {
		t.Row(Text("child"), Text(st.Child))
	}
	t.Row(Text("registry"), Text(st.Registry.Address), As(registryRole(st.Registry.State), st.Registry.State), As(Bad, outage(s, &st.Registry)))
	if r := st.Relay; r != nil {
		t.Row(Text("relay"), Text(r.URL), As(relayRole(r.State), r.State), Text(RoundTrip(r)), As(Bad, r.Error))
	}
	for _, v := range st.Services {
		t.Row(Text("service"), Text(v.Name), As(stateRole(v.State), v.State), Text(v.Mode), Text(v.Registered),
			Text(v.Guard), Text(v.Local), As(Warn, v.Note))
	}
	c := st.Counts
	t.Row(Text("exchanges"), Text(count(c.Exchanges)))
	t.Row(Text("matched"), Text(count(c.Matched)))
	t.Row(Text("external"), Text(count(c.External)))
	if c.Killed > 0 {
		t.Row(Text("kill switch"), As(Warn, count(c.Killed)))
	}
	byKey(t, "fallback", Warn, c.Fallbacks)
	byKey(t, "error", Bad, c.Errors)
	byKey(t, "guard", Plain, c.Guard)
	for _, w := range st.Warnings {
		t.Row(Text("warning"), As(Warn, w))
	}
	for _, e := range st.History {
		t.Row(Text("event"), Text(when(s, e.At)), Text(e.Text))
	}
	return t.Flush()
}

// RoundTrip is how long a round trip to a relay took, in milliseconds; empty where
// nobody knows.
func RoundTrip(r *control.RelayStatus) string {
	if r.RoundTrip <= 0 {
		return ""
	}
	return strconv.FormatFloat(max(r.RoundTrip*1000, 1), 'f', 0, 64) + "ms"
}

// outage is since when a registry is not what it should be, and why.
func outage(s *iostreams.IOStreams, r *control.RegistryStatus) string {
	if r.State == "fresh" || r.Since.IsZero() {
		return r.Error
	}
	return "since " + when(s, r.Since) + ": " + r.Error
}

// when is a time for a person, or for a program.
func when(s *iostreams.IOStreams, t time.Time) string {
	if s.IsStdoutTTY {
		return t.Local().Format(time.DateTime)
	}
	return t.Format(time.RFC3339)
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func byKey(t *Table, name string, r Role, m map[string]uint64) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		t.Row(Text(name), As(r, k), Text(count(m[k])))
	}
}

func stateRole(state string) Role {
	switch state {
	case control.StateUp, "passing", stateExposed:
		return Good
	case control.StateClaimLost, "critical", stateNoInstance:
		return Bad
	}
	return Warn
}

func relayRole(state string) Role {
	switch state {
	case control.RelayOK:
		return Good
	case control.RelayLost:
		return Bad
	}
	return Warn
}

func registryRole(state string) Role {
	switch state {
	case "fresh":
		return Good
	case "unreachable":
		return Bad
	}
	return Warn
}
