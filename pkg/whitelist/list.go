package whitelist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lists bounds how many routes' lists are kept.
const lists = 1000

// Reader returns a route's list, and nil if there is none. It ends with its context.
// A *LookupError says of which kind its failure is.
type Reader func(ctx context.Context, route string) ([]byte, error)

// List makes a whitelist of texts, one id a line. A list is read as a whole and kept
// like any other answer.
func List(read Reader, log *slog.Logger) *Whitelist {
	count := &counts{}
	answers := newMemo(lists, count, logger(log), func(ctx context.Context, route, _ string) (map[string]struct{}, error) {
		text, err := read(ctx, route)
		return parse(text), err
	})
	return &Whitelist{
		count: count,
		ask: func(ctx context.Context, route, id string) (bool, bool) {
			a := answers.get(ctx, route, route, id)
			_, member := a.value[id]
			return member, a.known
		},
		close: func() error {
			if answers.close() {
				answers.wait()
			}
			return nil
		},
	}
}

// parse reads one id a line. Blanks around it and blank lines are none's id.
func parse(text []byte) map[string]struct{} {
	ids := map[string]struct{}{}
	for _, id := range IDs(text) {
		ids[id] = struct{}{}
	}
	return ids
}

// IDs are those of a list, in its order.
func IDs(text []byte) []string {
	var out []string
	for line := range strings.Lines(string(text)) {
		if id := strings.TrimSpace(line); id != "" {
			out = append(out, id)
		}
	}
	return out
}

// CheckID says why an id cannot be on a list; its lines are compared without the
// blanks around them.
func CheckID(id string) error {
	switch {
	case id == "" || id != strings.TrimSpace(id):
		return errors.New("is blank, or has blanks around it")
	case len(id) > longestID:
		return fmt.Errorf("has %d bytes, and %d are the most", len(id), longestID)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return errors.New("is no line of text")
	}
	return nil
}

// Add adds the ids that are not on a list yet, behind those that are.
func Add(text []byte, ids ...string) (list []byte, added int) {
	out, on := IDs(text), parse(text)
	for _, id := range ids {
		if _, is := on[id]; !is {
			on[id] = struct{}{}
			out = append(out, id)
			added++
		}
	}
	if added == 0 {
		return text, 0
	}
	return lines(out), added
}

// Remove takes ids off a list.
func Remove(text []byte, ids ...string) (list []byte, removed int) {
	all := IDs(text)
	left := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(ids, id) })
	if len(left) == len(all) {
		return text, 0
	}
	return lines(left), len(all) - len(left)
}

func lines(ids []string) []byte {
	var b []byte
	for _, id := range ids {
		b = append(append(b, id...), '\n')
	}
	return b
}
