package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRelay(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	good := Relay{URL: "wss://relay.test.example", Issuer: "CN=x", RTT: 38 * time.Millisecond, NotAfter: now.Add(time.Hour * 24 * 365), Clock: now, Before: now, After: now}
	with := func(change func(*Relay)) []Finding {
		r := good
		change(&r)
		return r.Findings()
	}
	for name, c := range map[string]struct {
		got  []Finding
		want []string
	}{
		"well":      {with(func(*Relay) {}), []string{"ok it answers in 38 ms, and lets this token in; its certificate is trusted, and issued by CN=x"}},
		"pinned":    {with(func(r *Relay) { r.Pinned = true }), []string{"ok it answers in 38 ms, and lets this token in; its certificate is the pinned one"}},
		"no token":  {with(func(r *Relay) { r.NoToken = true }), []string{"ok it answers in 38 ms, and lets this client certificate in; its certificate is trusted"}},
		"away":      {with(func(r *Relay) { r.Err = errors.New("no route") }), []string{"wrong no route"}},
		"full":      {with(func(r *Relay) { r.Err, r.Full = errors.New("3 tunnels"), true }), []string{"note it answers, and takes no further tunnel: 3 tunnels"}},
		"old cert":  {with(func(r *Relay) { r.NotAfter = now.Add(13 * 24 * time.Hour) }), []string{"ok ", "note the relay's certificate ends on 2026-01-15"}},
		"elsewhere": {with(func(r *Relay) { r.Foreign, r.ForeignDo = errors.New("it registers elsewhere"), "look there" }), []string{"ok ", "wrong it registers elsewhere"}},
		"ahead": {with(func(r *Relay) { r.Before, r.After = now.Add(time.Minute), now.Add(time.Minute) }),
			[]string{"ok ", "note this machine's clock is 1m0s ahead of the relay's"}},
		"behind":     {with(func(r *Relay) { r.Clock = now.Add(time.Hour) }), []string{"ok ", "note this machine's clock is 1h0m0s behind the relay's"}},
		"little off": {with(func(r *Relay) { r.Clock = now.Add(20 * time.Second) }), []string{"ok "}},
		"mute":       {with(func(r *Relay) { r.Clock = time.Time{} }), []string{"ok "}},
	} {
		if len(c.got) != len(c.want) {
			t.Errorf("%s: %+v", name, c.got)
			continue
		}
		for i, f := range c.got {
			if text := string(f.Level) + " " + f.What; !strings.HasPrefix(text, c.want[i]) {
				t.Errorf("%s: %q, want %q", name, text, c.want[i])
			}
		}
	}
}

func TestToken(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	good := Token{User: "alice", Lanes: []string{"dev-alice"}, Services: []string{"*"}, Ends: now.Add(time.Hour), Now: now}
	for name, c := range map[string]struct {
		change func(*Token)
		want   string
	}{
		"well":                    {func(*Token) {}, "ok alice may serve every service in dev-alice until 2026-01-02T04:04:05Z"},
		"none":                    {func(t *Token) { t.Err = errors.New("there is no token") }, "wrong there is no token"},
		"not one":                 {func(t *Token) { t.Unread = true }, "wrong what is there is no token"},
		"ended":                   {func(t *Token) { t.Now = t.Ends }, "wrong it has ended"},
		"ends soon":               {func(t *Token) { t.Now = t.Ends.Add(-time.Minute) }, "note it ends soon"},
		"not for it":              {func(t *Token) { t.Lane, t.Rejected = "dev-bob", "orders" }, "wrong it does not allow orders in lane dev-bob"},
		"none, but a certificate": {func(t *Token) { t.Certificate, t.Ends = "alice", now.AddDate(1, 0, 0) }, "ok none is needed: the relay takes the certificate of alice alone, until 2027"},
		"a certificate that ends": {func(t *Token) { t.Certificate, t.Ends = "alice", now.AddDate(0, 0, 13) }, "note none is needed, but the certificate of alice, which the relay takes alone, ends on"},
		"two of them":             {func(t *Token) { t.Services = []string{"a", "b"} }, "ok alice may serve a, b in dev-alice"},
	} {
		v := good
		c.change(&v)
		got := v.Findings()
		if len(got) != 1 || !strings.HasPrefix(string(got[0].Level)+" "+got[0].What, c.want) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
