package proxy

import (
	"net/http"
	"net/textproto"
	"sync"
)

// early passes informational responses (103 Early Hints, 102 Processing) on to
// the caller while the final one is awaited. They come on the transport's own
// goroutine, perhaps when the response has already been taken: then they are
// dropped.
type early struct {
	mu sync.Mutex
	w  http.ResponseWriter // nil when nobody waits for them
}

func (e *early) got(code int, header textproto.MIMEHeader) error {
	if code == http.StatusContinue { // our server says that itself, when it wants the body
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.w == nil {
		return nil
	}
	h := e.w.Header()
	stripHop(http.Header(header), "")
	for k, v := range header {
		h[k] = v
	}
	e.w.WriteHeader(code)
	clear(h)
	return nil
}

// over ends it: the final response is there.
func (e *early) over() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w = nil
}
