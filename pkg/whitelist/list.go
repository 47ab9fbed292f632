package whitelist

import (
	"context"
	"log/slog"
	"strings"
)

// ListPrefix stands before the route's name in the key of its list.
const ListPrefix = "lane/rules/whitelist/"

// lists bounds how many routes' lists are kept.
const lists = 1000

// Reader returns what stands under key, and nil if nothing does. It ends with its
// context.
type Reader func(ctx context.Context, key string) ([]byte, error)

// List makes a whitelist of the lists that read finds under ListPrefix + route,
// one id a line. A list is read as a whole and kept like any other answer.
func List(read Reader, log *slog.Logger) *Whitelist {
	count := &counts{}
	answers := newMemo(lists, count, logger(log), func(ctx context.Context, route, _ string) (map[string]struct{}, error) {
		text, err := read(ctx, ListPrefix+route)
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
	for line := range strings.Lines(string(text)) {
		if id := strings.TrimSpace(line); id != "" {
			ids[id] = struct{}{}
		}
	}
	return ids
}
