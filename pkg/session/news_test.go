package session

import (
	"strings"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
)

// What a session remembers of its registry and its processes: each change once.
func TestNews(t *testing.T) {
	var n news
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var got []string
	say := func(s told) {
		at = at.Add(3 * time.Second)
		if s.text != "" {
			got = append(got, map[bool]string{true: "WARN "}[s.warn]+s.text)
		}
	}
	for _, state := range []lane.RegistryState{lane.Fresh, lane.Unreachable, lane.Unreachable, lane.Stale, lane.Fresh, lane.Fresh} {
		say(n.registryNews(state, at))
	}
	for _, open := range []bool{true, false, false, true, true, false} {
		say(n.processNews("orders", open, "nothing listens on 127.0.0.1:8080", at))
	}
	say(n.processNews("users", true, "", at))
	for _, killed := range []string{"", control.KilledLane, control.KilledLane, control.KilledAll, "", ""} {
		say(n.switchNews(killed, at))
	}
	want := []string{"WARN the registry does not answer: requests go by what was known before", "WARN the registry has no leader: requests go by what was known before",
		"the registry is back after 9 s", "WARN orders: nothing listens on 127.0.0.1:8080", "orders: the local process is back after 6 s", "WARN orders: nothing listens on 127.0.0.1:8080",
		"WARN the kill switch of this lane is on: the baseline serves its requests", "WARN the kill switch of all lanes is on: the baseline serves this one's requests",
		"the kill switch is off after 9 s: the lane serves again"}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("%q", got)
	}
}
