package traffic

import "strings"

// MaskAt masks a value of a difference between two answers, by the place where it
// stands: "header etag", "header set-cookie sid", "body .user.token".
func MaskAt(where, value string) string {
	if value == "" {
		return ""
	}
	if name, ok := strings.CutPrefix(where, "header "); ok {
		name, _, _ = strings.Cut(name, " ") // of a cookie its name stands behind
		return MaskHeaderValue(name, value)
	}
	for step := range strings.FieldsFuncSeq(where, func(r rune) bool { return strings.ContainsRune(`.[]"`, r) }) {
		if secretName(step) {
			return Masked
		}
	}
	return string(MaskBody(BodyJSON, []byte(value)))
}

// MaskBoth masks the two values of a difference. Of headers that look the same then it
// says that they are not.
func MaskBoth(where, old, new string) (string, string) {
	a, b := MaskAt(where, old), MaskAt(where, new)
	if a == b && old != new && a != "" && strings.HasPrefix(where, "header ") {
		a += " (values differ)"
		b = a
	}
	return a, b
}
