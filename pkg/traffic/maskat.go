package traffic

import "strings"

// MaskAt masks a value of a difference between two answers, by the place where it
// stands: "header set-cookie", "body .user.token".
func MaskAt(where, value string) string {
	if value == "" {
		return ""
	}
	if name, ok := strings.CutPrefix(where, "header "); ok {
		return MaskHeaderValue(name, value)
	}
	for step := range strings.FieldsFuncSeq(where, func(r rune) bool { return strings.ContainsRune(`.[]"`, r) }) {
		if secretName(step) {
			return Masked
		}
	}
	return string(MaskBody(BodyJSON, []byte(value)))
}
