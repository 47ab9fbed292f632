package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"lane/pkg/nearest"
	"lane/pkg/yamlline"

	"go.yaml.in/yaml/v3"
)

// elsewhere are keys that are not there, and what to do in their place.
var elsewhere = map[string]string{
	"lane":         "everybody who checks this out would share it; give it to the command, or set LANE_TAG",
	"consul.token": "a token does not belong into a file that is checked in; use consul.token_file or CONSUL_HTTP_TOKEN",
	"consul.ca":    "say consul.ca_file",
	"token":        "say consul.token_file, or CONSUL_HTTP_TOKEN",
}

// yaml reads one file; name is how messages call it.
func (l *loader) yaml(name string, b []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return // an empty file, or comments only
		}
		line, words := yamlline.Of(b, err)
		l.fail(name+":"+strconv.Itoa(line), "", words)
		return
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		l.fail(name+":"+strconv.Itoa(yamlline.Second(b)), "", "more than one document; the settings are one")
		return
	}
	root := doc.Content[0]
	if isNull(root) {
		return
	}
	f := &file{l: l, name: name}
	f.keys(root, "")
}

// file is one settings file being read.
type file struct {
	l    *loader
	name string
}

func (f *file) at(n *yaml.Node) string { return f.name + ":" + strconv.Itoa(n.Line) }

func (f *file) fail(n *yaml.Node, key, format string, args ...any) {
	f.l.fail(f.at(n), key, fmt.Sprintf(format, args...))
}

// pairs walks a mapping; it reports a key that is there twice, which YAML
// forbids and the reader of nodes lets pass.
func (f *file) pairs(n *yaml.Node, key string, visit func(name string, at, value *yaml.Node)) {
	n = follow(n)
	if n.Kind != yaml.MappingNode {
		f.fail(n, key, "has to be a mapping (name: value), not %s", kindOf(n))
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, value := follow(n.Content[i]), follow(n.Content[i+1])
		if at.Kind != yaml.ScalarNode {
			f.fail(at, key, "a name has to be a word, not %s", kindOf(at))
			continue
		}
		if line, twice := lines[at.Value]; twice {
			f.fail(at, join(key, at.Value), "is there twice, first in line %d", line)
			continue
		}
		lines[at.Value] = at.Line
		visit(at.Value, at, value)
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// keys reads the mapping of settings under prefix.
func (f *file) keys(n *yaml.Node, prefix string) {
	f.pairs(n, prefix, func(name string, at, value *yaml.Node) {
		full := join(prefix, name)
		if k := find(full); k != nil && !strings.Contains(name, ".") {
			f.value(k, at, value)
			return
		}
		if prefix == "" && slices.ContainsFunc(keys, func(k key) bool { return strings.HasPrefix(k.name, name+".") }) {
			if isNull(value) {
				return // a heading whose keys are all commented out
			}
			f.keys(value, name)
			return
		}
		f.unknown(at, prefix, name)
	})
}

// unknown reports a key that does not exist, with the nearest that does.
func (f *file) unknown(at *yaml.Node, prefix, name string) {
	full := join(prefix, name)
	if why := elsewhere[full]; why != "" {
		f.fail(at, full, "not here: %s", why)
		return
	}
	var known []string
	for _, k := range keys {
		if rest, ok := strings.CutPrefix(k.name, prefix+"."); ok && prefix != "" {
			known = append(known, rest)
		} else if prefix == "" {
			head, _, _ := strings.Cut(k.name, ".")
			if !slices.Contains(known, head) {
				known = append(known, head)
			}
		}
	}
	if near := nearest.Word(name, known); near != "" {
		f.fail(at, full, "unknown key; did you mean %s?", join(prefix, near))
		return
	}
	f.fail(at, full, "unknown key; there are %s", strings.Join(known, ", "))
}

// value reads one setting.
func (f *file) value(k *key, at, v *yaml.Node) {
	if isNull(v) {
		f.fail(at, k.name, "has no value; remove the line, or give one")
		return
	}
	switch k.form {
	case services:
		f.services(at, v)
	case list:
		if v.Kind != yaml.SequenceNode {
			f.fail(v, k.name, "has to be a list ([a, b]), not %s", kindOf(v))
			return
		}
		values := make([]string, 0, len(v.Content))
		for _, e := range v.Content {
			e = follow(e)
			if !f.scalar(e, k.name) {
				return
			}
			values = append(values, e.Value)
		}
		f.l.apply(k, f.at(at), values)
	case mapping, pair:
		if k.form == pair && v.Kind == yaml.ScalarNode { // what it may not be has a reason of its own
			f.l.apply(k, f.at(at), []string{v.Value})
			return
		}
		var values []string
		ok := true
		f.pairs(v, k.name, func(name string, at, value *yaml.Node) {
			if !f.scalar(value, join(k.name, name)) {
				ok = false
				return
			}
			values = append(values, name+"="+value.Value)
		})
		if ok && v.Kind == yaml.MappingNode {
			f.l.apply(k, f.at(at), values)
		}
	default:
		if !f.scalar(v, k.name) {
			return
		}
		if k.form == yesNo && v.Tag != "!!bool" {
			f.fail(v, k.name, "has to be true or false, not %q", v.Value)
			return
		}
		f.l.apply(k, f.at(at), []string{v.Value})
	}
}

// scalar reports whether n is one word, and complains if not. Its text is taken
// as written: version: 1.10 is no number.
func (f *file) scalar(n *yaml.Node, key string) bool {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		f.fail(n, key, "has to be one value, not %s", kindOf(n))
		return false
	}
	return true
}

// services reads the services of this repository.
func (f *file) services(at, v *yaml.Node) {
	if f.l.now == layerUser {
		f.fail(at, "services", "belongs into a repository's %s; here every directory would run it", FileName)
		return
	}
	var found []Service
	f.pairs(v, "services", func(name string, at, value *yaml.Node) {
		full := join("services", name)
		if err := CheckOwnName(name); err != nil {
			f.fail(at, full, "%v", err)
			return
		}
		s := Service{Name: name}
		var ok bool
		if value.Kind == yaml.ScalarNode && !isNull(value) { // order-service: 8080
			s.Port, ok = f.port(value, full)
		} else {
			ok = f.service(&s, value, full)
			if ok && s.Port == 0 {
				f.fail(at, full, "has no port; say { port: 8080 }")
				ok = false
			}
		}
		if ok {
			found = append(found, s)
		}
	})
	slices.SortFunc(found, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	f.l.known = found
	f.l.source["services"] = f.at(at)
}

func (f *file) service(s *Service, n *yaml.Node, full string) bool {
	before := len(f.l.problems)
	f.pairs(n, full, func(name string, at, value *yaml.Node) {
		switch name {
		case "port":
			if f.scalar(value, full+".port") {
				s.Port, _ = f.port(value, full+".port")
			}
		case "health":
			if f.scalar(value, full+".health") {
				path, err := CheckPath(value.Value)
				if err != nil {
					f.fail(value, full+".health", "%v", err)
				}
				s.Health = path
			}
		default:
			why := "there are port, health"
			if near := nearest.Word(name, []string{"port", "health"}); near != "" {
				why = "did you mean " + near + "?"
			}
			f.fail(at, join(full, name), "unknown key; %s", why)
		}
	})
	return len(f.l.problems) == before
}

func (f *file) port(n *yaml.Node, key string) (int, bool) {
	p, err := CheckPort(n.Value)
	if err != nil {
		f.fail(n, key, "%v", err)
		return 0, false
	}
	return p, true
}

func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	return "one value"
}
