package traffic

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Some lists have a name and its value as two members, as in an env of Kubernetes:
// {"name": "DB_PASSWORD", "value": "x"}. The value is then what the name says.

// namesOne and valuesOne say so of a member's last word: header_name, paramValue.
func namesOne(member string) bool {
	switch member = strings.ToLower(member); member {
	case "key", "k", "n", "id", "field", "param", "parameter", "property", "variable", "header":
		return true
	}
	return strings.HasSuffix(member, "name")
}

func valuesOne(member string) bool {
	switch member = strings.ToLower(member); member {
	case "values", "val", "v", "default", "content":
		return true
	}
	return strings.HasSuffix(member, "value")
}

// pairedValues are the places in JSON at which a value begins whose name, a secret one,
// stands beside it, as far as it is valid: it may have been cut. nil: there is none.
func pairedValues(b []byte) map[int]bool {
	if bytes.IndexByte(b, ':') < 0 {
		return nil
	}
	type object struct {
		list, secret bool
		member       string
		inValue      bool // the next token is the value of member
		values       []int
		oauth        bool // a question for a token: its code is a secret
		codes        []int
	}
	var out map[int]bool
	var open []object
	secret := func(places []int) {
		for _, at := range places {
			if out == nil {
				out = map[int]bool{}
			}
			out[at] = true
		}
	}
	closed := func(o *object) {
		if o.secret {
			secret(o.values)
		}
		if o.oauth {
			secret(o.codes)
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
				top.oauth = top.oauth || asksToken(top.member)
				if at := skipBlank(b, int(dec.InputOffset())); at < len(b) && valuesOne(top.member) {
					top.values = append(top.values, skipBlank(b, at+1))
				} else if at < len(b) && strings.EqualFold(top.member, "code") {
					top.codes = append(top.codes, skipBlank(b, at+1))
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

// asksToken says that an object with this member is a question for a token. A state is
// no sign of it here: addresses have one beside a code.
func asksToken(member string) bool {
	switch strings.ToLower(member) {
	case "grant_type", "granttype", "redirect_uri", "redirecturi", "code_verifier", "codeverifier":
		return true
	}
	return false
}
