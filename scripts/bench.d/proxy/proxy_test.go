//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWrkResultIsRead(t *testing.T) {
	lane := &target{name: "lane", load: &load{}}
	var s sample
	if err := s.read("Running\nRESULT 20000 2000000 4000000 150 900 0\n", lane, 400*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	want := sample{rps: 10000, p50: 150, p99: 900, mb: 2, cpu: 20}
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if lane.load.sent != 20000 {
		t.Errorf("%d requests counted", lane.load.sent)
	}
	for _, bad := range []string{"", "RESULT 1 2", "RESULT 0 2000000 0 0 0 0", "RESULT 5 2000000 9 1 1 3"} {
		if err := new(sample).read(bad, lane, 0); err == nil {
			t.Errorf("%q is taken for a result", bad)
		}
	}
	if err := new(sample).read("RESULT 0 2000000 0 0 0 0", &target{name: "slow"}, 0); err != nil {
		t.Errorf("a peer that answers nothing in time: %v", err)
	}
}

// A run whose numbers are known: three repetitions, one of them disturbed.
func madeUp(t *testing.T) *results {
	o, err := parse([]string{"--origin", "x", "--modes", "c16,big,one"})
	if err != nil {
		t.Fatal(err)
	}
	var targets []*target
	for _, name := range []string{direct, "lane", "nginx", "squid"} {
		targets = append(targets, &target{name: name, after: 41})
	}
	targets[1].load = &load{sent: 10000}
	r := newResults(o, targets)
	of := map[string]sample{
		direct:  {rps: 100, p50: 20, mb: 100},
		"lane":  {rps: 61, p50: 70, mb: 80, cpu: 30},
		"nginx": {rps: 90, p50: 40, mb: 90, cpu: 16},
		"squid": {rps: 30, p50: 100, mb: 30, cpu: 60},
	}
	for _, x := range targets {
		for _, m := range o.modes {
			for i := range 3 {
				s := of[x.name]
				s.rps += float64(i-1) * 5
				if i == 2 {
					s.outside = 1
				}
				r.add(x, m, s)
			}
		}
	}
	return r
}

func TestTablesAndAims(t *testing.T) {
	r := madeUp(t)
	var b bytes.Buffer
	r.print(&b, []string{"a machine"})
	for _, want := range []string{
		"a machine.\n", "12 of 36 measurements disturbed",
		"| lane | 61 | 0.61 | 0.68 | 70 | 0 | 30.0 | 1.88 |\n",
		"| lane | 80 | 0.80 | 70 | 50 | 0 | 41 | 0 |\n",
		"| lane: CPU per request, x nginx's, at most 1.5 | 1.88 | missed |\n",
		"| lane: requests/s, x squid's, at least 2 | 2.03 | met |\n",
		"| lane: requests/s, x direct, at least 0.6 | 0.61 | met |\n",
		"| lane: added p50, one connection on one CPU, µs, at most 60 | 50.00 | met |\n",
		"| lane: 10 MiB downloads, x direct, at least 0.75 | 0.80 | met |\n",
		"| lane: resident MiB after 10000 exchanges, at most 40 | 41.00 | missed |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "~ |") {
		t.Errorf("one disturbed sample of three is marked:\n%s", &b)
	}
	r.samples["lane c16"][0].outside = 1
	// The machine was four times slower in one repetition, for all: no ratio changes.
	r.samples["lane c16"][2].rps /= 4
	r.samples["squid c16"][2].rps /= 4
	b.Reset()
	r.print(&b, nil)
	for _, want := range []string{"| lane | 56~ |", "| lane: requests/s, x squid's, at least 2 | 2.03 | met |\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, bad := range [][]string{
		{}, {"--origin", "x", "--modes", "c0"}, {"--origin", "x", "--modes", "all"}, {"--origin", "x", "--reps", "0"},
		{"--origin", "x", "extra"}, {"sidecar", "--origin", "x"}, {"--origin", "x", "--rate", "y", "--modes", "r1000"}, {"gateway", "--origin", "x", "--modes", "r1000"}, {"--origin", "x", "--lane", "no/such/file"},
	} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"--origin", "x", "--only", "lane-old", "--lane", "lane-old=" + exe + ",GOGC=400"})
	if err != nil {
		t.Fatal(err)
	}
	if b := o.lanes[0]; b.name != "lane-old" || b.path != exe || len(b.env) != 1 || b.env[0] != "GOGC=400" {
		t.Errorf("%+v", b)
	}
	if !o.wants("lane-old") || !o.wants(direct) || o.wants("nginx") {
		t.Error("--only is not kept to")
	}
}

func TestRunGoesIntoItsPlace(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("a\n"+kindProxy.begins()+"old\n"+runEnds+"z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replace(page, kindProxy, []byte("new\n")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "a\n" + kindProxy.begins() + "new\n\n" + runEnds + "z\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := os.WriteFile(page, []byte("a\n"+runEnds), 0o600); err != nil {
		t.Fatal(err)
	}
	if replace(page, kindProxy, nil) == nil {
		t.Error("a page without a place for it is accepted")
	}
}
