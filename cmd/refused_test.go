package cmd

import (
	"errors"
	"fmt"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/session"
	"lane/tui"
)

// Somebody's claim is what a start asks about, whoever says so: the registry, another
// session of this machine or a relay. Another no is an error as any.
func TestWhatAStartAsksAbout(t *testing.T) {
	const key = "lane/declared/dev-alice/orders"
	held := &consul.ClaimHeldError{Held: lane.Claim{Lane: "dev-alice", Service: "orders", Owner: "bob", Host: "desk-9", Since: "2026-03-02T13:20:00Z", Active: "2026-03-02T14:00:12Z"}}
	far := *held
	far.Held.Relay = "relay-1:7443"
	no := session.RelayRefusedError{URL: "wss://relay.test.example", Code: 409, Text: "orders in lane dev-alice is held by bob on desk-9", Lane: "dev-alice", Service: "orders"}
	named, taking, token := no, no, no
	numbered := no
	numbered.Request = "KVN3X7QW2ABC"
	named.Name, taking.TakeOver, token.Code = "relay-1:7443", true, 403
	tunnel := session.RelayRefusedError{Code: 409, Text: "a newer link of this agent is there"}
	for i, c := range []struct {
		err  error
		want tui.Refusal
	}{
		{held, tui.Refusal{Lane: "dev-alice", Why: "orders in lane dev-alice is held by bob on desk-9", Since: "2026-03-02T13:20:00Z", Active: "2026-03-02T14:00:12Z", Claim: key}},
		{&far, tui.Refusal{Lane: "dev-alice", Why: "orders in lane dev-alice is held by bob on desk-9", Since: "2026-03-02T13:20:00Z", Active: "2026-03-02T14:00:12Z", Claim: key, Relay: "relay-1:7443"}},
		{&session.BusyError{Lane: "dev-alice", Service: "orders", PID: 4711}, tui.Refusal{Lane: "dev-alice", Why: "orders in lane dev-alice is held by another session on this machine (process 4711)", Claim: key, Here: true}},
		{&no, tui.Refusal{Lane: "dev-alice", Why: no.Text, Claim: key, Code: "409", Relay: "wss://relay.test.example"}},
		{&named, tui.Refusal{Lane: "dev-alice", Why: no.Text, Claim: key, Code: "409", Relay: "relay-1:7443"}},
		{&numbered, tui.Refusal{Lane: "dev-alice", Why: no.Text, Claim: key, Code: "409", Relay: "wss://relay.test.example", Request: "KVN3X7QW2ABC"}},
		{&taking, tui.Refusal{Lane: "dev-alice", Why: no.Text, Claim: key, Code: "409", Relay: "wss://relay.test.example", Final: true}},
		{&token, tui.Refusal{}},
		{&tunnel, tui.Refusal{}},
		{errors.New("any"), tui.Refusal{}},
		{nil, tui.Refusal{}},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("start: %w", err)
		}
		if got, ok := refusal(err); got != c.want || ok != (c.want != tui.Refusal{}) {
			t.Errorf("%d: %+v, %v", i, got, ok)
		}
	}
}
