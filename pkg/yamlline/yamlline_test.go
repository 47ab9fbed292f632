package yamlline

import (
	"errors"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		text, says, words string
		line              int
	}{
		{"a: b: c\n", "yaml: not allowed", "not allowed", 1},
		{"a: 1\nb: c: d\n", "yaml: line 2: not allowed", "not allowed", 2},
		{"a: 1\n\nb: *x1\nc: *x\n", "yaml: unknown anchor 'x' referenced", "unknown anchor 'x' referenced", 4},
		{"a: [*x]", "yaml: unknown anchor 'x' referenced", "unknown anchor 'x' referenced", 1},
		{"a: 1\nb: \x01\n", "yaml: control characters are not allowed", "control characters are not allowed", 2},
		{"a: 1\nb: 2\nc: \xff", "yaml: invalid leading UTF-8 octet", "it has to be UTF-8, and is not: invalid leading UTF-8 octet", 3},
		{"a: [1\n\n", "yaml: line 3: did not find ]", "did not find ]", 1},
		{"", "yaml: line x: y", "line x: y", 1},
	} {
		if line, words := Of([]byte(c.text), errors.New(c.says)); line != c.line || words != c.words {
			t.Errorf("%q, %q: line %d, %q", c.text, c.says, line, words)
		}
	}
}

func TestSecond(t *testing.T) {
	for text, want := range map[string]int{"a: 1\n---\nb: 1\n": 2, "# c\n---\na: 1\n--- # d\nb: 1": 4, "%YAML 1.1\n---\na: 1\n\n---\n": 5, "": 1, "a": 1} {
		if got := Second([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
