package tunnel

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"testing"
)

// Whoever is refused is told by which id the relay has written it down, whether its
// Authority refuses or the relay itself, and whatever was asked.
func TestARefusalSaysItsRequest(t *testing.T) {
	t.Parallel()
	numbered := func(code int, id string) *Refusal { return &Refusal{Code: code, Text: "no", Request: id} }
	r := startRelay(t, quick(), func(c *RelayConfig) {
		c.Limits.Claims = 1
		c.Denied = func(_ Holder, _ net.Addr, c *Claim, no *Refusal) string {
			if c == nil || c.Service == "unsaid" {
				return "" // it is not written down
			}
			return "DENIED-" + c.Service
		}
	})
	r.auth.deny["bob/1"], r.auth.deny["stock"], r.auth.deny["odd"] = numbered(401, "TOKEN"), numbered(403, "STOCK"), numbered(403, "\x1b[2J")
	claim := func(a *testAgent, id, service string) *Refusal {
		t.Helper()
		_, err := a.Claim(t.Context(), Claim{ID: id, Lane: "dev-alice", Service: service, Kind: TCP})
		if err == nil {
			t.Fatalf("%s is claimed", service)
		}
		return asRefusal(err, 0)
	}
	a := startAgent(t, quick(), r, nil)
	for service, want := range map[string]string{"stock": "STOCK", "odd": ""} { // an id of bytes for a terminal is none
		if no := claim(a, "c1", service); no.Code != 403 || no.Request != want || !no.Claim {
			t.Errorf("%s: %+v", service, no)
		}
	}
	a.claim(t, orders(TCP))
	for service, want := range map[string]string{"more": "DENIED-more", "unsaid": ""} { // over the limit
		if no := claim(a, "c2", service); no.Code != 429 || no.Request != want {
			t.Errorf("%s: %+v", service, no)
		}
	}
	b := startAgent(t, quick(), r, func(c *AgentConfig) { c.Install, c.Token = "install-2", shows("bob/1") })
	if no := claim(b, "c1", "orders"); no.Code != 401 || no.Request != "TOKEN" {
		t.Errorf("%+v", no)
	}
	other := startAgent(t, quick(), r, func(c *AgentConfig) { c.Install, c.Token = "install-3", shows("carol/1") })
	if no := claim(other, "c1", "orders"); no.Code != 409 || no.Request != "DENIED-orders" {
		t.Errorf("%+v", no)
	}
}

// What a relay answers may have more to it than this version knows: it is taken as what is
// known of it. What an agent asks, and what leads a stream to a claim, may not.
func TestANewerRelaysAnswersAreTaken(t *testing.T) {
	t.Parallel()
	of := func(s string) *bytes.Reader {
		return bytes.NewReader(append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...))
	}
	const answer = `{"t":"answer","seq":7,"code":409,"text":"no","later":{"a":[1]},"facts":{"request":"X1","later":"b"}}`
	var m message
	if err := readOpen(of(answer), maxMessage, &m); err != nil || m.Seq != 7 || m.refusal(true).Request != "X1" || m.refusal(true).Text != "no" {
		t.Errorf("%v, %+v", err, m)
	}
	var no Refusal
	if err := readOpen(of(`{"code":404,"text":"none","later":true}`), maxHeader, &no); err != nil || no.Code != 404 {
		t.Errorf("%v, %+v", err, no)
	}
	if err := readFrame(of(answer), maxMessage, &m); err == nil {
		t.Error("a relay has taken a message of which it does not know all")
	}
	if err := readFrame(of(`{"v":1,"claim":"c1","kind":"http","address":"10.0.0.1:22"}`), maxHeader, &Header{}); err == nil {
		t.Error("a header with an address was taken")
	}
	for _, bad := range []string{"{", answer + "x", `{"seq":"a"}`} {
		if err := readOpen(of(bad), maxMessage, &m); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	// An agent of before takes the answer: it has no field of its own for the id.
	b, err := json.Marshal(message{Type: msgAnswer, Seq: 7}.refused(&Refusal{Code: 409, Text: "no", Request: "X1"}))
	if err != nil {
		t.Fatal(err)
	}
	var before struct {
		Type  string            `json:"t"`
		Seq   uint64            `json:"seq"`
		Code  int               `json:"code"`
		Text  string            `json:"text"`
		Facts map[string]string `json:"facts"`
	}
	if err := strict(b, &before); err != nil {
		t.Error(err)
	}
	// And one of a relay of before has none.
	var old message
	if err := json.Unmarshal([]byte(`{"t":"answer","seq":7,"code":409,"text":"no"}`), &old); err != nil || old.refusal(true).Request != "" {
		t.Errorf("%v, %+v", err, old)
	}
}

// shows gives always the same token.
func shows(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}
