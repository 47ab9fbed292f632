package doctor

import (
	"fmt"
	"strings"
	"time"
)

// Relay is what one tunnel to the relay of the settings showed, which claimed nothing.
type Relay struct {
	URL, Source string
	Proxy       string // through which it went; empty: none

	// Err is why there was no tunnel; Do, what to do about it; the others say more
	// of what failed where it is known.
	Err error
	Do  string
	// Full says that the tunnel failed because of how many there are, and that
	// everything before that was in order.
	Full bool

	// NoToken says that a client certificate was shown alone.
	NoToken bool

	// Foreign says that it registers in another registry than that of the settings;
	// nil: it does not, or nobody can tell.
	Foreign   error
	ForeignDo string

	Pinned   bool // by its fingerprint; else it was verified
	Subject  string
	Issuer   string
	NotAfter time.Time
	RTT      time.Duration

	Clock, Before, After time.Time // the relay's, between two looks at ours; zero: it did not say
}

// relayCheck is the check's name.
const relayCheck = "relay"

// certSoon is how long before its end a certificate is spoken of.
const certSoon = 14 * 24 * time.Hour

// Findings of the relay.
func (r Relay) Findings() []Finding {
	at := where(r.URL, r.Source)
	if r.Proxy != "" {
		at += ", through the proxy " + r.Proxy
	}
	switch {
	case r.Full:
		return []Finding{{relayCheck, Note, "it answers, and takes no further tunnel: " + r.Err.Error(), at, r.Do}}
	case r.Err != nil:
		return []Finding{{relayCheck, Wrong, r.Err.Error(), at, r.Do}}
	}
	how := "is trusted, and issued by " + r.Issuer
	if r.Pinned {
		how = "is the pinned one"
	}
	by := "token"
	if r.NoToken {
		by = "client certificate"
	}
	out := []Finding{{relayCheck, Well, fmt.Sprintf("it answers in %d ms, and lets this %s in; its certificate %s", max(r.RTT.Milliseconds(), 1), by, how), at, ""}}
	if r.Foreign != nil {
		out = append(out, Finding{relayCheck, Wrong, r.Foreign.Error(), at, r.ForeignDo})
	}
	if left := r.NotAfter.Sub(r.now()); !r.NotAfter.IsZero() && left < certSoon {
		out = append(out, Finding{relayCheck, Note, "the relay's certificate ends on " + r.NotAfter.UTC().Format(time.RFC3339), at,
			"whoever runs the relay gives it a new one; where it is pinned, with a new fingerprint"})
	}
	if f, ok := r.skew(); ok {
		out = append(out, f)
	}
	return out
}

// now is the relay's time, or ours.
func (r Relay) now() time.Time {
	if r.Clock.IsZero() {
		return r.After
	}
	return r.Clock
}

// tokenSkew is how far the clock may be off before a token's end is misjudged by it.
const tokenSkew = 30 * time.Second

func (r Relay) skew() (Finding, bool) {
	if r.Clock.IsZero() {
		return Finding{}, false
	}
	skew := r.Before.Add(r.After.Sub(r.Before) / 2).Sub(r.Clock)
	if skew.Abs() < tokenSkew {
		return Finding{}, false
	}
	way := "ahead of"
	if skew < 0 {
		way = "behind"
	}
	return Finding{relayCheck, Note, fmt.Sprintf("this machine's clock is %s %s the relay's: what is said here of a token's end is wrong by that", skew.Abs().Round(time.Second), way), "",
		"set the clock"}, true
}

// Token is what the token for the relay says of itself.
type Token struct {
	Source         string // where it comes from
	Err            error  // there is none, or none that may be used
	Do             string
	Certificate    string // whose is shown in its place; "": none
	User           string
	Lanes          []string
	Services       []string
	Ends           time.Time
	Now            time.Time // by the relay's clock, if that is known
	Unread         bool      // it is no token
	Lane, Rejected string    // the lane and the first service that it does not allow, if they are known
}

// Findings of the token.
func (t Token) Findings() []Finding {
	const check = "token"
	switch {
	case t.Err != nil:
		return []Finding{{check, Wrong, t.Err.Error(), t.Source, t.Do}}
	case t.Certificate != "" && t.Ends.Sub(t.Now) < certSoon:
		return []Finding{{check, Note, fmt.Sprintf("none is needed, but the certificate of %s, which the relay takes alone, ends on %s", t.Certificate, t.Ends.UTC().Format(time.RFC3339)), t.Source,
			"whoever made it makes a new one"}}
	case t.Certificate != "":
		return []Finding{{check, Well, fmt.Sprintf("none is needed: the relay takes the certificate of %s alone, until %s", t.Certificate, t.Ends.UTC().Format(time.RFC3339)), t.Source, ""}}
	case t.Unread:
		return []Finding{{check, Wrong, "what is there is no token of a relay", t.Source, t.Do}}
	}
	says := fmt.Sprintf("%s may serve %s in %s until %s", t.User, list(t.Services, "every service"), list(t.Lanes, ""), t.Ends.UTC().Format(time.RFC3339))
	switch left := t.Ends.Sub(t.Now); {
	case left <= 0:
		return []Finding{{check, Wrong, "it has ended: " + says, t.Source, t.Do}}
	case t.Rejected != "":
		return []Finding{{check, Wrong, fmt.Sprintf("it does not allow %s in lane %s: %s", t.Rejected, t.Lane, says), t.Source,
			"a token for it is made by whoever runs the relay: lane relay token create --lanes … --services …"}}
	case left < 10*time.Minute:
		return []Finding{{check, Note, "it ends soon: " + says, t.Source, t.Do}}
	}
	return []Finding{{check, Well, says, t.Source, ""}}
}

func list(names []string, all string) string {
	if len(names) == 1 && names[0] == "*" && all != "" {
		return all
	}
	return strings.Join(names, ", ")
}

// Claims are who else holds what is to be served.
type Claims struct {
	Held []string // "orders in lane dev-alice is held by bob on desk-2"
	Err  error
}

// Findings of the claims; none where nobody does.
func (c Claims) Findings() []Finding {
	const check = "claims"
	if c.Err != nil {
		return Unknown(check, c.Err)
	}
	var out []Finding
	for _, text := range c.Held {
		out = append(out, Finding{check, Note, text + ": `lane up` is refused", "",
			"take another lane name, ask them to end theirs, or, if they agree, stand beside them with --join"})
	}
	return out
}
