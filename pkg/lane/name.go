package lane

import "fmt"

// Name is a lane's name, a DNS-1123 label of at most 63 characters: at once a
// legal header and baggage value, Consul metadata value, Kubernetes label and
// DNS label. The empty Name is the baseline.
type Name string

// BaselineTag is the tag that asks for the baseline explicitly.
const BaselineTag = "baseline"

// TagKind says what a request's carrier holds.
type TagKind uint8

// The kinds of a tag.
const (
	TagNone     TagKind = iota // nothing, or nothing but white space
	TagLane                    // a valid lane name
	TagBaseline                // the baseline by name: an explicit wish for it
	TagInvalid                 // malformed, or two different values
)

// Tag is what a request carries, in normal form.
type Tag struct {
	Kind TagKind
	Lane Name   // set for TagLane
	Raw  string // as received, for messages and for passing on
	// From is where it was found: a header's name, or cookie, query, host; empty if
	// nobody has said.
	From string
	// Conflict holds the values that disagreed with the one that was taken, and
	// Places, of carriers that disagree, where each was found.
	Conflict, Places []string
}

// Reserved names are not to be used for a lane: the baseline's own, and the
// names of environments, which are hard constraints and no lanes.
var reserved = map[string]string{
	"baseline": "it is the baseline's name", "stable": "it is an alias of the baseline", "base": "it is an alias of the baseline",
	"dev": "it names an environment", "test": "it names an environment", "staging": "it names an environment",
	"prod": "it names an environment", "all": "it means every lane", "none": "it means no lane",
}

// NameError says why a string is no lane name, and what would be one.
type NameError struct {
	Given   string
	Why     string
	Suggest string // empty when nothing like it is valid
}

func (e *NameError) Error() string {
	msg := fmt.Sprintf("lane name %q: %s", e.Given, e.Why)
	if e.Suggest != "" {
		msg += fmt.Sprintf("; try %q", e.Suggest)
	}
	return msg
}

// valid reports whether s is a DNS-1123 label of at most 63 characters.
func valid(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// ParseName reads a lane name as a person gives it. It refuses malformed and
// reserved names with a *NameError.
func ParseName(s string) (Name, error) {
	if why, ok := reserved[s]; ok {
		return "", &NameError{Given: s, Why: "reserved: " + why, Suggest: "dev-" + s}
	}
	if !valid(s) {
		return "", &NameError{Given: s, Suggest: suggest(s),
			Why: "must be lower-case letters, digits and inner hyphens, 63 characters at most"}
	}
	return Name(s), nil
}

// handy is the length of a suggestion for a name that is too long: behind it there is
// place for the service in the name of an isolated instance, which is a DNS label too.
const handy = 32

// suggest turns s into the nearest valid name, or "".
func suggest(s string) string {
	most := 63
	if len(s) > most {
		most = handy
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s) && len(out) < most; i++ {
		c := s[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		default:
			c = '-'
		}
		if c == '-' && (len(out) == 0 || out[len(out)-1] == '-') {
			continue
		}
		out = append(out, c)
	}
	for len(out) > 0 && out[len(out)-1] == '-' {
		out = out[:len(out)-1]
	}
	if _, res := reserved[string(out)]; res || len(out) == 0 {
		return ""
	}
	return string(out)
}
