package lane

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// CheckWord says why s cannot be what an instance is registered with as its env, its
// tenant, its zone or its version, without naming s. Those of other instances are
// compared with it letter by letter: a space inside, or a list where one name is wanted,
// would be an environment of its own, which nobody else is in.
func CheckWord(s string) error {
	const form = "it has to be one word of letters, digits and . _ - : / + @ ~"
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-:/+@~", r) {
			return fmt.Errorf("%q is in it; %s", r, form)
		}
	}
	if s == "" {
		return errors.New(form)
	}
	return nil
}
