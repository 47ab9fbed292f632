package token

import (
	"fmt"
	"strings"
	"time"
)

// MaxTTL is the longest life of a token: one that got away works no longer.
const MaxTTL = 12 * time.Hour

// Grant is what a token says: its user may claim the services in the lanes until
// it ends.
type Grant struct {
	ID       string    `json:"id"`       // names the token when it is revoked
	User     string    `json:"user"`     // whose it is
	Lanes    []string  `json:"lanes"`    // patterns, see CheckLane
	Services []string  `json:"services"` // patterns, see CheckService
	Issued   time.Time `json:"issued"`
	Expires  time.Time `json:"expires"`
}

// LanesOf are the lanes of a user, of whom nothing else was said. They may be none that
// CheckLane takes: a user's name can have characters that a lane's has not.
func LanesOf(user string) []string {
	own := "dev-" + strings.ToLower(user)
	return []string{own, own + "-*"}
}

// PatternError says why a pattern or a name cannot be in a token.
type PatternError struct{ What, Value, Why string }

func (e *PatternError) Error() string { return fmt.Sprintf("%s %q: %s", e.What, e.Value, e.Why) }

// Check returns a *PatternError for the first thing that makes a grant unfit.
func (g *Grant) Check() error {
	if err := CheckUser(g.User); err != nil {
		return err
	}
	if len(g.Lanes) == 0 {
		return &PatternError{"lanes", "", "a token without lanes allows nothing"}
	}
	if len(g.Services) == 0 {
		return &PatternError{"services", "", "a token without services allows nothing; * is every service"}
	}
	for _, l := range g.Lanes {
		if err := CheckLane(l); err != nil {
			return err
		}
	}
	for _, s := range g.Services {
		if err := CheckService(s); err != nil {
			return err
		}
	}
	if d := g.Expires.Sub(g.Issued); d <= 0 || d > MaxTTL {
		return &PatternError{"lifetime", d.String(), fmt.Sprintf("is not between 0 and %s", MaxTTL)}
	}
	return nil
}

// CheckUser returns a *PatternError for a name that a user cannot have: it becomes
// the owner that others are shown.
func CheckUser(name string) error {
	const why = "must be 1 to 64 letters, digits and . _ @ -, the first a letter or a digit"
	if name == "" || len(name) > 64 {
		return &PatternError{"user", name, why}
	}
	for i := range len(name) {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || strings.IndexByte("._@-", c) < 0) {
			return &PatternError{"user", name, why}
		}
	}
	return nil
}

// CheckLane returns a *PatternError for what is no pattern of lanes: a name, or
// the beginning of one with -* behind it. A bare beginning such as dev-al* would
// also be alice's.
func CheckLane(pattern string) error { return checkPattern("lane", pattern, false) }

// CheckService is CheckLane for services, of which * is all.
func CheckService(pattern string) error { return checkPattern("service", pattern, true) }

func checkPattern(what, p string, all bool) error {
	if p == "*" {
		if all {
			return nil
		}
		return &PatternError{what, p, "would be everybody's lanes; name them"}
	}
	name, tail := strings.CutSuffix(p, "-*")
	limit := 63
	if tail {
		limit = 61
	}
	if !isLabel(name) || len(name) > limit {
		return &PatternError{what, p, "must be lower-case letters, digits and inner hyphens, or such a name with -* behind it"}
	}
	return nil
}

func isLabel(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// RefusedError says what a grant does not allow.
type RefusedError struct {
	User, Lane, Service string
	Why                 string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the token of %s does not allow %s in lane %s: %s", e.User, e.Service, e.Lane, e.Why)
}

// Allow decides whether a grant lets a user claim a service in a lane; nil is yes,
// else it is a *RefusedError. user is who claims, as far as that is known from
// elsewhere (a certificate); empty is whoever the token says.
func (g *Grant) Allow(user, lane, service string) error {
	no := func(format string, a ...any) error {
		return &RefusedError{User: g.User, Lane: lane, Service: service, Why: fmt.Sprintf(format, a...)}
	}
	switch {
	case g.User == "" || user != "" && user != g.User:
		return no("it is used by %s", user)
	case !isLabel(lane) || !matchAny(g.Lanes, lane, false):
		return no("its lanes are %s", strings.Join(g.Lanes, ", "))
	case !isLabel(service) || !matchAny(g.Services, service, true):
		return no("its services are %s", strings.Join(g.Services, ", "))
	}
	return nil
}

// matchAny reports whether one of the patterns matches. Patterns that could not
// have been made match nothing.
func matchAny(patterns []string, name string, all bool) bool {
	for _, p := range patterns {
		if checkPattern("", p, all) != nil {
			continue
		}
		if p == "*" || p == name {
			return true
		}
		if head, ok := strings.CutSuffix(p, "*"); ok && len(name) > len(head) && strings.HasPrefix(name, head) {
			return true
		}
	}
	return false
}
