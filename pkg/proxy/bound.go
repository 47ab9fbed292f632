package proxy

import (
	"strings"

	"lane/pkg/traffic"
)

// Limits of what is recorded of one exchange, in bytes: the log's memory must
// not depend on what a caller sends.
const (
	maxURL   = 2048
	maxWord  = 256
	maxText  = 1024
	maxNotes = 16
)

// bound cuts what a caller or a server can make long.
func bound(e *traffic.Exchange) {
	e.URL = clip(e.URL, maxURL)
	e.Method, e.Tag, e.Addr = clip(e.Method, maxWord), clip(e.Tag, maxWord), clip(e.Addr, maxWord)
	e.Service, e.Note, e.Err = clip(e.Service, maxWord), clip(e.Note, maxWord), clip(e.Err, maxText)
	if len(e.Warnings) > maxNotes {
		e.Warnings = e.Warnings[:maxNotes]
	}
	for i, w := range e.Warnings {
		e.Warnings[i] = clip(w, maxWord)
	}
}

// clip cuts a string and lets go of the rest of it.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.Clone(s[:n]) + "…"
}

// letGo takes what is recorded out of a long head, which would stay in memory for
// the sake of a few words.
func letGo(e *traffic.Exchange) {
	for _, s := range []*string{&e.Method, &e.URL, &e.Tag, &e.TraceID, &e.ClientTraceID, &e.Service, (*string)(&e.Lane), &e.Addr, &e.Instance, &e.Note, &e.Err} {
		*s = strings.Clone(*s)
	}
}
