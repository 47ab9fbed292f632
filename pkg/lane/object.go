package lane

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// object reads one JSON object field by field, so that an error names the field
// as its author wrote it. Names match exactly, null is the default, and a field
// that nobody asked for is an error. The first error counts.
type object struct {
	id     string // of the case
	path   string // before the field's name: "cfg."
	fields map[string]json.RawMessage
	asked  map[string]bool
	err    error
}

func newObject(raw []byte, id, path string) *object {
	o := &object{id: id, path: path, asked: map[string]bool{}}
	if err := json.Unmarshal(raw, &o.fields); err != nil || o.fields == nil {
		o.fields = nil
		o.err = &SnapshotError{Case: id, Field: trimDot(path), Why: "must be an object"}
	}
	return o
}

func trimDot(path string) string {
	if path == "" {
		return ""
	}
	return path[:len(path)-1]
}

func (o *object) wrong(field, why string) error {
	return &SnapshotError{Case: o.id, Field: o.path + field, Why: why}
}

func (o *object) fail(field, why string) {
	if o.err == nil {
		o.err = o.wrong(field, why)
	}
}

// join ends a field's object, and takes over its error.
func (o *object) join(part *object) {
	if err := part.end(); err != nil && o.err == nil {
		o.err = err
	}
}

// end is the first error, a field that nobody asked for included.
func (o *object) end() error {
	if o.err != nil {
		return o.err
	}
	var unknown []string
	for k := range o.fields {
		if !o.asked[k] {
			unknown = append(unknown, k)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		o.fail(unknown[0], "unknown field")
	}
	return o.err
}

// given reports whether the field is there and not null.
func (o *object) given(field string) bool {
	o.asked[field] = true
	raw, ok := o.fields[field]
	return ok && string(raw) != "null"
}

// read decodes a field into v, and reports whether there was one.
func (o *object) read(field, want string, v any) bool {
	if !o.given(field) {
		return false
	}
	if err := json.Unmarshal(o.fields[field], v); err != nil {
		o.fail(field, "must be "+want)
		return false
	}
	return true
}

func (o *object) text(field, def string) string {
	v := def
	if !o.read(field, "a string", &v) {
		return def
	}
	return v
}

func (o *object) choice(field, def string, allowed ...string) string {
	v := o.text(field, def)
	var bad *PolicyError
	if errors.As(oneOf(field, v, allowed...), &bad) {
		o.fail(field, bad.Value+": "+bad.Why)
		return def
	}
	return v
}

func (o *object) flag(field string, def bool) bool {
	v := def
	if !o.read(field, "true or false", &v) {
		return def
	}
	return v
}

func (o *object) number(field string, def float64) float64 {
	v := def
	if !o.read(field, "a number", &v) {
		return def
	}
	return v
}

// whole reads a whole number of at least least; 3.0 is one.
func (o *object) whole(field string, def, least int) int {
	if !o.given(field) {
		return def
	}
	var v float64
	switch {
	case !o.read(field, "a whole number", &v):
		return def
	case v != math.Trunc(v) || math.Abs(v) > math.MaxInt32:
		o.fail(field, "must be a whole number, not "+string(o.fields[field]))
		return def
	case v < float64(least):
		o.fail(field, "must be at least "+strconv.Itoa(least))
		return def
	}
	return int(v)
}

// seconds reads a duration in seconds, of at least least.
func (o *object) seconds(field string, least float64) time.Duration {
	v := o.number(field, 0)
	if v < least {
		o.fail(field, fmt.Sprintf("must be at least %v", least))
		return 0
	}
	const limit = 1e9 // 31 years: beyond it one age is like another
	return time.Duration(math.Round(max(min(v, limit), -limit) * float64(time.Second)))
}

func (o *object) texts(field string) []string {
	var v []string
	o.read(field, "a list of strings", &v)
	return v
}

func (o *object) list(field string) []json.RawMessage {
	var v []json.RawMessage
	o.read(field, "a list", &v)
	return v
}

// object reads a field that is an object; without one, an empty object.
func (o *object) object(field string) *object {
	if !o.given(field) {
		return &object{id: o.id, path: o.path + field + ".", asked: map[string]bool{}}
	}
	return newObject(o.fields[field], o.id, o.path+field+".")
}
