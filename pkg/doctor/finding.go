package doctor

import (
	"context"
	"sync"
	"time"
)

// Level is how much a finding matters.
type Level string

// The levels, in the order of their weight.
const (
	Well  Level = "ok"
	Note  Level = "note"        // to be known, and nothing is broken
	Wrong Level = "wrong"       // something does not work, or hurts somebody
	Away  Level = "unreachable" // the registry, and so most else is unknown
)

// Finding is one thing that a check found.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	What  string `json:"what"`
	Where string `json:"where,omitempty"` // a setting, a variable, an address
	Do    string `json:"do,omitempty"`
}

// Worst is the level that matters most.
func Worst(all []Finding) Level {
	weight := map[Level]int{Well: 0, Note: 1, Wrong: 2, Away: 3}
	worst := Well
	for _, f := range all {
		if weight[f.Level] > weight[worst] {
			worst = f.Level
		}
	}
	return worst
}

// Count is how many findings have a level.
func Count(all []Finding, l Level) (n int) {
	for _, f := range all {
		if f.Level == l {
			n++
		}
	}
	return n
}

// Check finds out about one thing. It ends when its context does.
type Check func(context.Context) []Finding

// Run runs all checks at once, each with a deadline, and returns what they found in
// the checks' order.
func Run(ctx context.Context, limit time.Duration, checks ...Check) []Finding {
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			found[i] = check(ctx)
		})
	}
	all.Wait()
	var out []Finding
	for _, f := range found {
		out = append(out, f...)
	}
	return out
}

// Unknown is the finding of a check that could not find out.
func Unknown(check string, err error) []Finding {
	return []Finding{{Check: check, Level: Note, What: "this could not be found out: " + err.Error()}}
}
