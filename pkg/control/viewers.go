package control

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

const (
	// headerViewer names whoever polls, headerEnd has a session's last status.
	headerViewer = "Lane-Viewer"
	headerEnd    = "Lane-End"
	// goodbye is how long an ended session waits for viewers that are between two
	// polls, and attached since when somebody who polled is still there.
	goodbye  = time.Second
	attached = time.Second
)

// viewers are those who poll a session. Its end comes to them with the answer that
// they wait for, or with the next one: else they would know no more of it than that
// its socket is gone, and neither why nor what it was like at last.
type viewers struct {
	ended <-chan struct{}
	last  func() string // the session's last status; asked once it has ended

	mu     sync.Mutex
	there  map[string]time.Time // when each was last seen
	told   map[string]bool      // who knows of the end
	change chan struct{}        // somebody knows
}

func newViewers(ended context.Context, sess Session) *viewers {
	return &viewers{ended: ended.Done(), there: map[string]time.Time{}, told: map[string]bool{}, change: make(chan struct{}, 1),
		last: sync.OnceValue(func() string {
			b, err := json.Marshal(sess.Status(context.WithoutCancel(ended)))
			if err != nil {
				return ""
			}
			return string(b)
		})}
}

// over says that the session has ended.
func (v *viewers) over() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

// only lets nobody in after the end but who is told of it.
func (v *viewers) only(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v.over() && !v.knows(r.Header.Get(headerViewer)) {
			panic(http.ErrAbortHandler) // to a caller that is how a session looks that is gone
		}
		next.ServeHTTP(w, r)
	})
}

func (v *viewers) knows(id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.there[id]
	return ok
}

// answer notes a viewer before and after it is answered.
func (v *viewers) answer(w http.ResponseWriter, r *http.Request, do func()) {
	id := r.Header.Get(headerViewer)
	if id == "" {
		do()
		return
	}
	v.seen(id, maxWait)
	do()
	if w.Header().Get(headerEnd) == "" {
		v.seen(id, 0)
		return
	}
	v.mu.Lock()
	v.told[id] = true
	v.mu.Unlock()
	select {
	case v.change <- struct{}{}:
	default:
	}
}

// seen notes that a viewer is there now, and for some time to come.
func (v *viewers) seen(id string, goesOn time.Duration) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.there[id] = now.Add(goesOn)
	for id, at := range v.there {
		if now.Sub(at) > attached {
			delete(v.there, id)
		}
	}
}

// tell puts the end into an answer, if it has come.
func (v *viewers) tell(w http.ResponseWriter, r *http.Request) {
	if v.over() && r.Header.Get(headerViewer) != "" {
		w.Header().Set(headerEnd, v.last())
	}
}

// wait waits until all viewers know of the end, at most for some time.
func (v *viewers) wait(most time.Duration) {
	over := time.NewTimer(most)
	defer over.Stop()
	for {
		v.mu.Lock()
		for id, at := range v.there {
			if time.Since(at) > attached && !v.told[id] {
				delete(v.there, id)
			}
		}
		left := len(v.there) - len(v.told)
		v.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-v.change:
		case <-over.C:
			return
		}
	}
}
