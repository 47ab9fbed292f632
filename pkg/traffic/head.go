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
type Head struct{ text string }

// HeadText records fields that stand in a text, each "Name: value" with a line
// end. What does not fit is left out.
func HeadText(text string) Head {
	if len(text) <= maxHead {
		return Head{text}
	}
	cut := strings.LastIndexByte(text[:maxHead], '\n') + 1
	return Head{strings.Clone(text[:cut])} // lets go of the rest
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
	for _, k := range keys {
		for _, v := range h[k] {
			v = oneLine.Replace(clip(v))
			if b.Len()+len(k)+len(v)+4 > maxHead {
				return Head{b.String()}
			}
			b.WriteString(oneLine.Replace(k) + ": " + v + "\r\n")
		}
	}
	return Head{b.String()}
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
	for line := range strings.Lines(h.text) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if ok && name != "" {
			out[name] = append(out[name], MaskHeaderValue(name, clip(strings.Trim(value, " \t"))))
		}
	}
	return out
}

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
