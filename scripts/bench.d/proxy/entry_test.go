//go:build linux

package main

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lane/pkg/lane"
	"lane/pkg/rules"
)

func TestTablesOfEntries(t *testing.T) {
	o, err := parse([]string{"gateway", "--origin", "x", "--rate", "y", "--modes", "c16,r1000"})
	if err != nil {
		t.Fatal(err)
	}
	targets := []*target{{name: direct}, {name: "gateway", after: 40, load: &load{}}, {name: "nginx", after: 9}}
	r := newResults(o, targets)
	of := map[string]sample{
		direct:    {rps: 100, p50: 20, p99: 100},
		"gateway": {rps: 50, p50: 70, p99: 600, cpu: 32},
		"nginx":   {rps: 80, p50: 40, p99: 200, cpu: 20},
	}
	for _, x := range targets {
		for _, m := range o.modes {
			for i := range 3 {
				s := of[x.name]
				s.p99 += float64(i) * 1000 // slow for all: what is added is the same
				r.add(x, m, s)
			}
		}
	}
	var b bytes.Buffer
	r.print(&b, nil)
	for _, want := range []string{
		"3 repetitions of 2s, 5s at a fixed rate, medians",
		"| 16 connections | requests/s |", "| gateway | 50 | 0.50 | 0.62 | 70 | 1600 | 32.0 | 1.60 |\n",
		"| 1000 requests/s | p50 µs |", "| direct | 20 |  | 1100 |  |  |  |\n", "| gateway | 70 | 50 | 1600 | 500 | 32.0 | 1.60 |\n",
		"| gateway | 0 | 40 | 0 |\n",
		"| gateway: CPU per request, x nginx's, at most 1.7 | 1.60 | met |\n",
		"| gateway: added p99 at 1000 requests/s, µs, at most 1000 | 500.00 | met |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "squid") || strings.Contains(b.String(), "10 MiB") {
		t.Errorf("the aims of another kind are shown:\n%s", &b)
	}
}

// A page has a place for each kind, and a run goes into its own.
func TestEachKindHasItsPlace(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	both := kindProxy.begins() + "one\n" + runEnds + kindGateway.begins() + "two\n" + runEnds
	if err := os.WriteFile(page, []byte(both), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replace(page, kindGateway, []byte("new\n")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(both, "two\n", "new\n\n", 1); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The rules are what the measurement says of them: the request's user is colored by
// the last of them that can hold, and another user by none.
func TestRulesOfTheGateway(t *testing.T) {
	set, err := rules.Parse([]byte(ruleDocument()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(set.Rules()); n != 20 {
		t.Errorf("%d rules", n)
	}
	for who, want := range map[string]lane.Name{buyer[1]: tag, "u-1": "lane-1", "u-99": ""} {
		req := rules.Request{Entry: "orders", Host: "shop.test", Target: "/", Headers: rules.Map{"X-User-Id": {who}}}
		req.Remote = netip.MustParseAddr("127.0.0.1")
		if got := set.Color(&req, nil); got.Tag.Lane != want {
			t.Errorf("%s: %+v", who, got)
		}
	}
}

func TestTotal(t *testing.T) {
	const text = `# HELP a_total all
# TYPE a_total counter
a_total{x="one two"} 3
a_total{x="y"} 4
a_total_more{x="y"} 100
b_total 1.5e+06
`
	for name, want := range map[string]int64{"a_total": 7, "b_total": 1_500_000} {
		if n, err := total(strings.NewReader(text), name); err != nil || n != want {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	for _, bad := range []string{"", "c_total 1\n", "a_total x\n"} {
		if _, err := total(strings.NewReader(bad), "a_total"); err == nil {
			t.Errorf("%q has a total", bad)
		}
	}
}

// Each request of each run has a trace of its own, for wrk and at a fixed rate.
func TestRequestsAreNumbered(t *testing.T) {
	o, err := parse([]string{"gateway", "--origin", "x", "--rate", "rate"})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{work: t.TempDir()}
	x := &target{addr: "127.0.0.1:1", host: "shop.test", send: sentTo(kindGateway)}
	seen := map[string]bool{}
	for range 2 {
		for _, m := range o.modes {
			args, err := s.client(o, x, m, o.seconds)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(args, " ")
			if m.rate == 0 {
				script, err := os.ReadFile(filepath.Join(s.work, "wrk.lua"))
				if err != nil {
					t.Fatal(err)
				}
				if text = string(script); !strings.Contains(text, "function request()") {
					t.Errorf("wrk numbers nothing:\n%s", text)
				}
			}
			_, rest, _ := strings.Cut(text, "4bf92f3577b34da6")
			run, _, ok := strings.Cut(rest, mark)
			if !ok || seen[run] || len(run+mark) != 16 {
				t.Errorf("%s: the run's part of the trace is %q", m.key, run)
			}
			seen[run] = true
		}
	}
	x.send = nil
	if _, err := s.client(o, x, o.modes[0], o.seconds); err != nil {
		t.Fatal(err)
	}
	if script, _ := os.ReadFile(filepath.Join(s.work, "wrk.lua")); strings.Contains(string(script), "function request()") {
		t.Error("wrk numbers what has no place for a number")
	}
}
