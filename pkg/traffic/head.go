package traffic

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// maxHead bounds what is kept of one head, and maxField one value of it, in
// bytes: the log's memory must not depend on what a caller sends.
const (
	maxHead  = 4096
	maxField = 1024
)

// Head is the fields of a message as they were recorded, a line each. It is
// kept as text because few of the heads that are recorded are ever looked at;
// secrets are masked whenever it is read.
type Head struct {
	text string
	cut  bool // some of it was not kept
}

// Field is one field of a head.
type Field struct{ Name, Value string }

// HeadText records fields that stand in a text, each "Name: value" with a line
// end. What does not fit is left out.
func HeadText(text string) Head {
	if len(text) <= maxHead {
		return Head{text: text}
	}
	cut := strings.LastIndexByte(text[:maxHead], '\n') + 1
	return Head{strings.Clone(text[:cut]), true} // lets go of the rest
}

// HeadOf records a header map.
func HeadOf(h http.Header) Head {
	if h == nil {
		return Head{}
	}
	keys := make([]string, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	cut := false
	for _, k := range keys {
		for _, v := range h[k] {
			cut = cut || len(v) > maxField
			v = oneLine.Replace(clip(v))
			if b.Len()+len(k)+len(v)+4 > maxHead {
				return Head{b.String(), true}
			}
			b.WriteString(oneLine.Replace(k) + ": " + v + "\r\n")
		}
	}
	return Head{b.String(), cut}
}

// HeadOfFields records fields in their order.
func HeadOfFields(fields []Field, cut bool) Head {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(oneLine.Replace(f.Name) + ": " + oneLine.Replace(f.Value) + "\r\n")
	}
	h := HeadText(b.String())
	h.cut = h.cut || cut
	return h
}

// HeadAgain is a head that Masked has written.
func HeadAgain(text string, cut bool) Head {
	h := HeadText(text)
	h.cut = h.cut || cut
	return h
}

// Masked is the head as text, its secrets masked.
func (h Head) Masked() string {
	if h.text == "" {
		return ""
	}
	var b strings.Builder
	b.Grow(len(h.text))
	for _, f := range h.Fields() {
		b.WriteString(f.Name)
		b.WriteString(": ")
		b.WriteString(f.Value)
		b.WriteString("\r\n")
	}
	return b.String()
}

// oneLine keeps a value from ending its line, which no message on a wire can do.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// Header is the head as a map, nil if there is none, its secrets masked. Names
// keep their letter case.
func (h Head) Header() http.Header {
	if h.text == "" {
		return nil
	}
	out := http.Header{}
	for _, f := range h.Raw() {
		out[f.Name] = append(out[f.Name], MaskHeaderValue(f.Name, clip(f.Value)))
	}
	return out
}

// Fields is the head in its order, its secrets masked.
func (h Head) Fields() []Field {
	out := h.Raw()
	for i := range out {
		out[i].Value = MaskHeaderValue(out[i].Name, out[i].Value)
	}
	return out
}

// Raw is the head in its order with its secrets. It is for sending the same
// request again, at the wish of the user whose request it was, and for nothing
// that is shown or kept.
func (h Head) Raw() []Field {
	var out []Field
	for line := range strings.Lines(h.text) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if ok && name != "" {
			out = append(out, Field{name, strings.Trim(value, " \t")})
		}
	}
	return out
}

// Get is the first value of a field with its secrets, "" if there is none.
func (h Head) Get(name string) string {
	for _, f := range h.Raw() {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Cut says that some of the head was too long to be kept.
func (h Head) Cut() bool { return h.cut }

func clip(v string) string {
	if len(v) <= maxField {
		return v
	}
	return v[:maxField] + "…"
}

// String is for logs and tests: masked, as everything that leaves a Head.
func (h Head) String() string { return fmt.Sprint(h.Header()) }

// GoString is the same for %#v.
func (h Head) GoString() string { return h.String() }
