package traffic

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Some lists have a name and its value as two members, as in an env of Kubernetes:
// {"name": "DB_PASSWORD", "value": "x"}. The value is then what the name says.

func namesOne(member string) bool {
	switch strings.ToLower(member) {
	case "name", "key", "field", "param", "parameter", "property", "variable", "header":
		return true
	}
	return false
}

func valuesOne(member string) bool {
	switch strings.ToLower(member) {
	case "value", "values", "val", "default", "stringvalue":
		return true
	}
	return false
}

// pairedValues are the places in JSON at which a value begins whose name, a secret one,
// stands beside it, as far as it is valid: it may have been cut. nil: there is none.
func pairedValues(b []byte) map[int]bool {
	if low := bytes.ToLower(b); !bytes.Contains(low, []byte("val")) && !bytes.Contains(low, []byte("default")) {
		return nil
	}
	type object struct {
		list, secret bool
		member       string
		inValue      bool // the next token is the value of member
		values       []int
	}
	var out map[int]bool
	var open []object
	closed := func(o *object) {
		for _, at := range o.values {
			if out == nil {
				out = map[int]bool{}
			}
			out[at] = o.secret || out[at]
		}
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	for {
		t, err := dec.Token()
		if err != nil {
			for i := range open {
				closed(&open[i])
			}
			return out
		}
		var top *object
		if len(open) > 0 {
			top = &open[len(open)-1]
		}
		if d, ok := t.(json.Delim); ok && (d == '}' || d == ']') {
			closed(top)
			open = open[:len(open)-1]
			continue
		}
		if top != nil && !top.list {
			if !top.inValue { // a member's name
				top.member, top.inValue = t.(string), true
				if at := skipBlank(b, int(dec.InputOffset())); at < len(b) && valuesOne(top.member) {
					top.values = append(top.values, skipBlank(b, at+1))
				}
				continue
			}
			top.inValue = false
			if s, ok := t.(string); ok && namesOne(top.member) && secretLabel(s) {
				top.secret = true
			}
		}
		if d, ok := t.(json.Delim); ok {
			open = append(open, object{list: d == '['})
		}
	}
}
