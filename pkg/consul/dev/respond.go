package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// maxKVValue is Consul's default limit of a value and of a transaction, in bytes.
const maxKVValue = 512 << 10

// maxBody bounds every other request body, in bytes.
const maxBody = 1 << 20

// textError is an answer of plain text that is no success.
type textError struct {
	code int
	text string
}

func (f textError) Error() string { return f.text }

// say is an error in Consul's own words, which often begin with a capital.
func say(format string, args ...any) error {
	return textError{http.StatusInternalServerError, fmt.Sprintf(format, args...)}
}

func failf(code int, format string, args ...any) error {
	return textError{code, fmt.Sprintf(format, args...)}
}

// serverError is what Consul's agent hears from its servers. Some endpoints
// then still write the headers of a read that found nothing.
type serverError struct{ error }

// codeError is not a failure: the answer has a body, and this code.
type codeError struct{ code int }

func (s codeError) Error() string { return strconv.Itoa(s.code) }

// handler answers with a value that is rendered as JSON, with nil and no error
// if it has written its own answer, or with an error.
type handler func(w http.ResponseWriter, req *http.Request) (any, error)

func answer(w http.ResponseWriter, v any, err error) {
	code := http.StatusOK
	var s codeError
	var f textError
	switch {
	case errors.As(err, &s):
		code = s.code
	case errors.As(err, &f):
		writeText(w, f.code, err.Error()) // with what wraps it
		return
	case err != nil:
		writeText(w, http.StatusInternalServerError, err.Error())
		return
	}
	if text, ok := v.(plain); ok {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, string(text))
		return
	}
	if v == nil {
		return
	}
	body, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		writeText(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}

// plain is an answer of text.
type plain string

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// decode reads a JSON body and refuses fields that 1.14.11 does not know, as it
// does itself.
func decode(req *http.Request, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(nil, req.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return failf(http.StatusRequestEntityTooLarge, "Request body too large, max size: %d bytes.", maxBody)
		}
		return failf(http.StatusBadRequest, "Request decode failed: %v", err)
	}
	return nil
}

// meta is what the headers of a read say.
type meta struct {
	index       uint64
	consistency string
	streaming   bool
}

func (m meta) write(w http.ResponseWriter) {
	h := w.Header()
	// 0 would make a client ask again at once, for ever.
	h.Set("X-Consul-Index", strconv.FormatUint(max(m.index, 1), 10))
	// Not a number here, and the client stops reading the headers.
	h.Set("X-Consul-LastContact", "0")
	// Consul says false on every answer of its streaming backend.
	h.Set("X-Consul-KnownLeader", strconv.FormatBool(!m.streaming))
	backend := "blocking-query"
	if m.streaming {
		backend = "streaming"
	}
	h.Set("X-Consul-Query-Backend", backend)
	if m.consistency != "" {
		h.Set("X-Consul-Effective-Consistency", m.consistency)
	}
}
