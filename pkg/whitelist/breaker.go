package whitelist

import (
	"log/slog"
	"sync"
	"time"
)

// breaker keeps requests from waiting, one after the other, for a source that is
// dead: after a failure nobody asks for a second, and then one request does.
type breaker struct {
	mu     sync.Mutex
	down   time.Time // when the last failure was; zero: it answers
	asking bool      // somebody tries whether it is back
}

// allow says whether a request may ask. Who may, ends with failed, answered or
// unasked.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down.IsZero() {
		return true
	}
	if b.asking || time.Since(b.down) < retried {
		return false
	}
	b.asking = true
	return true
}

func (b *breaker) failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down, b.asking = time.Now(), false
}

// answered takes an answer to a question of the given time. One that is older
// than the last failure says nothing about now.
func (b *breaker) answered(asked time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if asked.Before(b.down) {
		return
	}
	b.down, b.asking = time.Time{}, false
}

func (b *breaker) unasked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking = false
}

// troubles are what does not work now, by route; "" is the source as a whole. Each
// is said once when it begins and once when it is over, whatever the traffic:
// failures that are less than ten seconds apart are one trouble.
type troubles struct {
	log  *slog.Logger
	mu   sync.Mutex
	open map[string]*trouble
}

type trouble struct {
	last   time.Time
	errors int
}

func (t *troubles) failed(route string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := t.open[route]
	if is == nil {
		is = &trouble{}
		t.open[route] = is
		t.log.Warn("whitelist: no answer, its users go to the baseline", about(route, "error", err.Error())...)
	}
	is.last = time.Now()
	is.errors++
}

func (t *troubles) answered(route string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := t.open[route]
	if is == nil || time.Since(is.last) < remembered {
		return
	}
	delete(t.open, route)
	t.log.Info("whitelist: answers again", about(route, "errors", is.errors)...)
}

func about(route string, more ...any) []any {
	if route == "" {
		return more
	}
	return append([]any{"route", route}, more...)
}
