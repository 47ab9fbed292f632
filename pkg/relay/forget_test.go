package relay

import (
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/token"
)

// Only a revocation goes whose token has ended by itself, by all that is known.
func TestWhichRevocationsGo(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	good := consul.Revocation{ID: token.NewID(), Readable: true, Expires: now.Add(-2 * time.Hour)}
	for name, c := range map[string]struct {
		change func(*consul.Revocation)
		since  time.Duration
		want   bool
	}{
		"long ended":               {func(*consul.Revocation) {}, forgetAfter + time.Second, true},
		"just now":                 {func(r *consul.Revocation) { r.Expires = now.Add(-time.Hour) }, forgetAfter + time.Second, false},
		"still good":               {func(r *consul.Revocation) { r.Expires = now.Add(time.Hour) }, forgetAfter + time.Second, false},
		"a revoker's clock behind": {func(r *consul.Revocation) { r.Expires = now.AddDate(0, 0, -3) }, token.MaxTTL, false},
		"it does not say when":     {func(r *consul.Revocation) { r.Expires = time.Time{} }, forgetAfter + time.Second, false},
		"not ours to read":         {func(r *consul.Revocation) { r.Readable = false }, forgetAfter + time.Second, false},
		"a certificate's":          {func(r *consul.Revocation) { r.ID = certID + "0123456789abcdef" }, forgetAfter + time.Second, false},
		"no token's ID":            {func(r *consul.Revocation) { r.ID = "note" }, forgetAfter + time.Second, false},
		"a folder":                 {func(r *consul.Revocation) { r.ID = "old/" + r.ID }, forgetAfter + time.Second, false},
	} {
		r := good
		c.change(&r)
		known := follow(nil, map[string]consul.Revocation{r.ID: r}, now.Add(-c.since))
		known = follow(known, map[string]consul.Revocation{r.ID: r}, now) // heard again, as it was
		if got := past(known, now); (len(got) == 1) != c.want {
			t.Errorf("%s: %v", name, got)
		}
		again := r
		again.User = "somebody" // written anew: it may be about another time
		if got := past(follow(known, map[string]consul.Revocation{r.ID: again}, now), now); len(got) != 0 {
			t.Errorf("%s, written anew: %v", name, got)
		}
		if got := past(follow(known, nil, now), now); len(got) != 0 {
			t.Errorf("%s, gone: %v", name, got)
		}
	}
}

func TestWhichRevocationsHoldWithoutTheirKey(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	id, cert := token.NewID(), certID+"0123456789abcdef"
	for name, c := range map[string]struct {
		id    string
		since time.Duration
		want  bool
	}{
		"a token's":             {id, time.Hour, true},
		"of one that has ended": {id, forgetAfter + time.Second, false},
		"a certificate's":       {cert, forgetAfter + time.Second, true},
	} {
		all := map[string]consul.Revocation{c.id: {ID: c.id, Expires: now.Add(-time.Minute)}} // by the revoker's clock
		known := follow(nil, all, now.Add(-c.since))
		if got := lost(known, nil, now); (len(got) == 1) != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := lost(known, all, now); len(got) != 0 {
			t.Errorf("%s, that stands: %v", name, got)
		}
	}
}
