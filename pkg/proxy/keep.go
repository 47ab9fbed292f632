package proxy

import (
	"slices"
	"sync"

	"lane/pkg/traffic"
)

// keeper keeps the beginning of a body that passes. A body may still be read when
// its exchange has been recorded: what comes then is let go. A nil keeper keeps
// nothing.
type keeper struct {
	mu   sync.Mutex
	body traffic.Body
	over bool
}

// keepers are a request's, nil if no body is to be kept.
func (t *Transport) keepers() (req, res *keeper) {
	if !t.bodies {
		return nil, nil
	}
	return &keeper{}, &keeper{}
}

func (k *keeper) add(p []byte) {
	if k == nil || len(p) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over {
		k.body.Keep(p)
	}
}

// take is what was kept of a body of n bytes, nil for none; nothing is added to it
// from now on.
func (k *keeper) take(n int64) *traffic.Body {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	if n == 0 || len(k.body.Bytes) == 0 {
		return nil // none, or not one that passed by here, as behind an upgrade
	}
	return &traffic.Body{Bytes: slices.Clone(k.body.Bytes), Cut: n > int64(len(k.body.Bytes))}
}
