//go:build unix

package faults

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"
)

var raceCount = numberFlag("races", 10, 100, "how many claim races are run; 0 is the form's own number")

// Developers who want the same service of the same lane at the same time: one of
// them has it, and the others are told who.
func TestClaimRaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{})
	w.remember()
	const racers = 3
	n := raceCount()
	w.share(n, 2, func(w *world, worker, i int) {
		var desks []map[string]string
		var names []string
		for j := range racers {
			names = append(names, fmt.Sprintf("owner-%d-%d", worker, j))
			desks = append(desks, w.desk(names[j]))
		}
		w.race(i+1, fmt.Sprintf("dev-race%d", worker), names, desks)
	})
	if t.Failed() {
		return
	}
	w.asBefore(limit, "after all races")
	report.line(3, fmt.Sprintf("**%d claim races** of %d processes on %d machines each, with one real Consul: one winner each time; the others ended with 1 and its name.",
		n, racers, racers))
}

func (w *world) race(n int, lane string, owners []string, desks []map[string]string) {
	var all []*program
	for _, vars := range desks {
		all = append(all, start(w.t, vars, "up", lane, "-s", "orders="+w.local.port(), "--plain"))
	}
	// All but one end by themselves.
	winner := -1
	for end := time.Now().Add(limit); ; pause(w.t, 10*time.Millisecond) {
		ended, up := 0, -1
		for i, p := range all {
			if p.ended() {
				ended++
			} else if isUp(desks[i], p.pid()) {
				up = i
			}
		}
		if ended >= len(all)-1 && up >= 0 {
			winner = up
			break
		}
		if ended == len(all) || time.Now().After(end) {
			w.t.Fatalf("race %d: %d of %d have ended, and nobody is up", n, ended, len(all))
		}
	}
	for i, p := range all {
		if i == winner {
			continue
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 1 || !containsAll(p.err.String(), owners[winner]) {
			w.t.Fatalf("race %d: a loser ended with %d, and does not name %s:\n%s", n, code, owners[winner], p.err.String())
		}
	}
	var claims []struct{ Value []byte }
	if err := w.call(w.agent, http.MethodGet, "/v1/kv/lane/declared/"+lane+"/orders", nil, &claims); err != nil || !containsAll(string(claims[0].Value), owners[winner]) {
		w.t.Fatalf("race %d: %s has won, and the claim says %v %v", n, owners[winner], claims, err)
	}
	all[winner].signal(syscall.SIGINT)
	if code := all[winner].wait(); code != 130 {
		w.t.Fatalf("race %d: the winner ended with %d", n, code)
	}
}
