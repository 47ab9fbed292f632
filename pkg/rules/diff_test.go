package rules

import (
	"fmt"
	"strings"
	"testing"

	"lane/pkg/lane"
)

const samples = `[
 {"name": "alice", "host": "shop.test", "path": "/api?x=1", "headers": {"X-User": "alice"}, "remote": "10.0.0.1"},
 {"name": "bob", "headers": {"X-User": ["bob"]}, "remote": "10.0.0.1"},
 {"name": "a stranger as alice", "headers": {"X-User": "alice"}, "remote": "203.0.113.7"},
 {"name": "listed", "headers": {"X-User": "carol"}, "remote": "10.0.0.1", "whitelisted": ["buyers"]},
 {"name": "tagged", "headers": {"x-lane-tag": "gray"}, "remote": "10.0.0.1"},
 {"name": "tagged by cookie", "headers": {"Cookie": "x-lane-tag=gray"}, "remote": "10.0.0.1"},
 {"name": "malformed", "headers": {"x-lane-tag": "Gray!"}, "remote": "10.0.0.1"},
 {"method": "GET", "host": "h", "path": "/nameless?x-lane-tag=gray", "remote": "10.0.0.1"}
]`

func TestDiff(t *testing.T) {
	from := mustParse(t, `
entry: shop
trustHeader: [10.0.0.0/8]
identity: {headers: X-User, trust: [10.0.0.0/8]}
rules:
  - {id: a, priority: 1, lane: one, match: {header: {name: X-User, exact: alice}}}
  - {id: b, priority: 2, lane: one, match: {header: {name: X-User, exact: bob}}}
`)
	to := mustParse(t, `
entry: shop
invalid: reject
identity: {headers: X-User, trust: [10.0.0.0/8]}
rules:
  - {id: a2, priority: 1, lane: two, match: {header: {name: X-User, exact: alice}}}
  - {id: b2, priority: 2, lane: one, match: {header: {name: X-User, exact: bob}}}
  - {id: w, priority: 3, lane: wl, whitelist: {route: buyers, header: X-User}}
`)
	list, err := ParseSamples(strings.NewReader(samples))
	if err != nil {
		t.Fatal(err)
	}
	said := func(from, to *Set) (out []string) {
		changes, err := Diff(from, to, list, lane.DefaultCarriers())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			out = append(out, fmt.Sprintf("%s: %s %s -> %s %s", c.Sample.Name, c.From.Lane(), c.From.Rule, c.To.Lane(), c.To.Rule))
		}
		return out
	}
	want := `alice: one a -> two a2
listed: baseline  -> wl w
tagged: gray  -> baseline 
tagged by cookie: gray  -> baseline 
malformed: baseline  -> refused 
#8 GET h/nameless?x-lane-tag=gray: gray  -> baseline `
	if got := strings.Join(said(from, to), "\n"); got != want {
		t.Errorf("%s", got)
	}
	if got := said(from, from); got != nil {
		t.Errorf("nothing has changed: %v", got)
	}
	if got := strings.Join(said(nil, to), "\n"); got != "alice: baseline  -> two a2\nbob: baseline  -> one b2\nlisted: baseline  -> wl w\nmalformed: baseline  -> refused " {
		t.Errorf("from nothing: %s", got)
	}
}

func TestDiffNeedsTheEntry(t *testing.T) {
	two := mustParse(t, "entry: [a, b]\nrules: [{id: r, priority: 1, lane: gray, match: {path: {prefix: /}}}]")
	if _, err := Diff(nil, two, []Sample{{Name: "x", Path: "/"}}, lane.DefaultCarriers()); err == nil || !strings.Contains(err.Error(), "one of a, b") {
		t.Errorf("%v", err)
	}
	got, err := Diff(nil, two, []Sample{{Entry: "b", Path: "/"}, {Entry: "c", Path: "/"}}, lane.DefaultCarriers())
	if err != nil || len(got) != 1 || got[0].Sample.Entry != "b" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Diff(nil, nil, []Sample{{Path: "/"}}, lane.DefaultCarriers()); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestBadSamples(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "line 1: no JSON: unexpected end of JSON input",
		"[\n{},\n{,}]":                  "line 3: no JSON: invalid character",
		"{}":                            "it is no list of requests: [{...}, ...]",
		"[] []":                         "line 1: no JSON: invalid character '[' after top-level value",
		"[{}, 7]":                       `request 2: it is no object such as {"path": "/"}`,
		"[null]":                        `request 1: it is no object such as {"path": "/"}`,
		`[{"headders": {}}]`:            `request 1: unknown field "headders"; did you mean headers?`,
		`[{"xyz": {}}]`:                 `request 1: unknown field "xyz"; there are name, method, host, path, entry, headers, remote, whitelisted`,
		`[{"headers": {"a": 1}}]`:       "request 1: headers: a header is one text, or a list of texts",
		`[{"headers": {"a": [1]}}]`:     "request 1: headers: a header is one text, or a list of texts",
		`[{"headers": "a"}]`:            "request 1: headers: a string is not what belongs there",
		`[{}, {"whitelisted": "a"}]`:    "request 2: whitelisted: a string is not what belongs there",
		`[{"path": 7}]`:                 "request 1: path: a number is not what belongs there",
		`[{"path": "a"}]`:               `request 1: the path "a" does not begin with /`,
		`[{"remote": "somewhere"}]`:     `request 1: remote: "somewhere" is no IP address`,
		`[{"remote": 7}]`:               "request 1: remote: 7 is no IP address",
		`[{"name": "n", "path": "x"}]`:  `request 1: the path "x" does not begin with /`,
		"[" + strings.Repeat(" ", 1000): "line 1: no JSON",
	} {
		if _, err := ParseSamples(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if all, err := ParseSamples(strings.NewReader(`[{}, {"remote": "", "path": null}]`)); err != nil || len(all) != 2 || all[1].Path != "/" {
		t.Errorf("%v, %v", all, err)
	}
}
