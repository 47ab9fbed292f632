package session_test

import (
	"errors"
	"strings"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/control"
)

func TestAClaimThatAnotherHolds(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		first := run(t, w.options("box"))
		mine := first.up().Services[0]
		if c := mine.Claim; c == nil || c.State != control.ClaimHeld || c.Since == "" || c.From != "" {
			t.Errorf("the claim is said to be %+v", c)
		}

		o := w.options("desk")
		o.Owner = "bob"
		var held *consul.ClaimHeldError
		if err := run(t, o).wait(); !errors.As(err, &held) || held.Held.Owner != "alice" {
			t.Errorf("Run = %v, want alice's claim", err)
		}
		if in := w.instances(); len(in) != 1 || in[0].ID != mine.ID {
			t.Errorf("instances %v", in)
		}

		o.TakeOver = true
		second := run(t, o)
		his := second.up().Services[0]
		if c := his.Claim; c == nil || c.State != control.ClaimHeld || !strings.HasPrefix(c.From, "alice") {
			t.Errorf("the claim that was taken over is said to be %+v", c)
		}
		var lost *consul.ClaimLostError
		if err := first.wait(); !errors.As(err, &lost) || lost.By.Owner != "bob" {
			t.Errorf("the loser's Run = %v", err)
		}
		if in := w.instances(); len(in) != 1 || in[0].ID != his.ID || his.ID == mine.ID || in[0].Draining != "" {
			t.Errorf("after the takeover: %v, want only %s", in, his.ID)
		}
		if err := second.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		w.empty()
	})
}

// Both register under the same ID: what the loser removed would be the winner's.
func TestTheSameMachineTakesOver(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		first := run(t, w.options("box"))
		before := first.up().Services[0]
		w.front.set(nil)
		o := w.options("box")
		o.TakeOver = true
		second := run(t, o)
		st := second.up()
		after := st.Services[0]
		var lost *consul.ClaimLostError
		if err := first.wait(); !errors.As(err, &lost) {
			t.Errorf("the loser's Run = %v", err)
		}
		in := w.instances()
		if before.ID != after.ID || len(in) != 1 || !strings.HasSuffix(after.Guard, ":"+in[0].Port) || in[0].Draining != "" {
			t.Errorf("after the takeover: %v, want %s at %s", in, after.ID, after.Guard)
		}
		for _, put := range w.front.writes() {
			if strings.Contains(put, "/deregister/") {
				t.Errorf("the loser removed the winner's instance: %s", put)
			}
		}
		if code, _, err := w.ask(st, "/"); code != 200 || err != nil {
			t.Errorf("through the winner's guard: %d %v", code, err)
		}
		if err := second.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		w.empty()
	})
}

// The loser leaves the instance to the winner, who must remove it even if its
// own start fails right then.
func TestAFailedStartRemovesWhatItTookOver(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		first := run(t, w.options("box"))
		first.up()
		failed := errors.New("interrupted after the takeover")
		o := w.options("box")
		o.TakeOver = true
		var second *running
		begun := make(chan struct{})
		o.At = func(step string) {
			if step == "register" {
				<-begun
				second.end(failed)
			}
		}
		second = run(t, o)
		close(begun)
		if err := second.wait(); !errors.Is(err, failed) {
			t.Errorf("Run = %v", err)
		}
		var lost *consul.ClaimLostError
		if err := first.wait(); !errors.As(err, &lost) {
			t.Errorf("the loser's Run = %v", err)
		}
		w.empty()
	})
}
