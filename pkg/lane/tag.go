package lane

import "strings"

// alwaysBaseline reports whether v is one of the baseline's own names, which no
// setting can take away.
func alwaysBaseline(v string) bool { return v == BaselineTag || v == "stable" || v == "base" }

// ParseTag brings one carrier value into its normal form. It trims spaces and
// tabs, and never changes a letter's case: "Gray" is invalid, not "gray".
// "baseline", "stable" and "base" are always the baseline's names;
// baselineNames are more of them.
func ParseTag(raw string, baselineNames ...string) Tag {
	v := strings.Trim(raw, " \t")
	switch {
	case v == "":
		return Tag{Raw: raw}
	case alwaysBaseline(v):
		return Tag{Kind: TagBaseline, Raw: raw}
	}
	for _, b := range baselineNames {
		if v == b {
			return Tag{Kind: TagBaseline, Raw: raw}
		}
	}
	if !valid(v) {
		return Tag{Kind: TagInvalid, Raw: raw}
	}
	return Tag{Kind: TagLane, Lane: Name(v), Raw: raw}
}

// Value is what the carrier holds without the white space around it.
func (t Tag) Value() string { return strings.Trim(t.Raw, " \t") }

// same reports whether two tags ask for the same thing.
func (t Tag) same(u Tag) bool {
	if t.Kind != u.Kind {
		return false
	}
	if t.Kind == TagInvalid {
		return t.Value() == u.Value()
	}
	return t.Lane == u.Lane
}
