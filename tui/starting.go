package tui

import (
	"strconv"

	"lane/pkg/control"
)

// stepMeans say what a step of a start does.
var stepMeans = map[string]string{
	"registry": "ask the registry",
	"listen":   "open the proxy and the guards",
	"prove":    "prove that callers reach the guards",
	"relay":    "connect to the relay",
	"session":  "open a session of the registry's",
	"claim":    "claim the services",
	"register": "register, and wait until it shows",
	"command":  "run the command",
	"guardian": "start what cleans up if this process is killed",
}

// starting is the screen of a session that starts: its steps, each with its time.
func (m *model) starting() []string {
	s := &m.status
	out := []string{"", "  Starting lane " + m.fixed.text.clean(string(s.Lane), 80) + ".", ""}
	for i := range s.Steps {
		step := &s.Steps[i]
		mark, took, look := "ok", stepTime(step.Took), plain
		if step.Took == 0 {
			mark, took, look = "..", stepTime(m.now.Sub(step.Began).Seconds()), bold
		}
		out = append(out, m.paint(look, cut("  "+mark+"  "+fitLeft(took, 7)+"  "+m.stepWords(step), m.width)))
	}
	return append(out, "", "  q stops it; nothing is left behind.")
}

// stepWords say what a step does, and why it is not over.
func (m *model) stepWords(step *control.Step) string {
	t, s := m.fixed.text, &m.status
	what := t.clean(step.Name, 40)
	if means, ok := stepMeans[step.Name]; ok {
		what = means
	}
	switch {
	case step.Name == "registry" && s.Registry.Address != "":
		what += " at " + t.clean(s.Registry.Address, 80)
	case step.Name == "relay" && s.Relay != nil:
		what += " " + t.clean(s.Relay.URL, 100)
		if step.Took == 0 && s.Relay.Error != "" {
			what += ": " + t.clean(s.Relay.Error, 200)
		}
	}
	return what
}

// stepTime is a time that passes on the screen: 12 ms, 3.2 s, 41 s.
func stepTime(seconds float64) string {
	switch seconds = max(seconds, 0); {
	case seconds < 1:
		return strconv.FormatFloat(seconds*1000, 'f', 0, 64) + " ms"
	case seconds < 10:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return strconv.FormatFloat(seconds, 'f', 0, 64) + " s"
}

// begins says that the session's start is under way and shown by its steps.
func begins(s *control.Status) bool { return s.State == control.SessionStarting && len(s.Steps) > 0 }
