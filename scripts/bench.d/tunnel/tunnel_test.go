//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test's program is what startPair starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if end := ends[os.Args[1]]; end != nil {
			if err := end(os.Args[2:]); err != nil {
				panic(err)
			}
			return
		}
	}
	os.Exit(m.Run())
}

func TestTargets(t *testing.T) {
	a, err := startApp()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	for _, k := range kinds {
		if k.name == "ssh" {
			continue // not on every machine
		}
		tg, err := k.start(t.Context(), k.name, &options{rtt: 10 * time.Millisecond}, t.TempDir(), a.addr)
		if tg != nil {
			t.Cleanup(tg.close)
		}
		if err != nil {
			t.Fatal(k.name, err)
		}
		if mbs, err := pull(tg.addr, 1<<20); err != nil || mbs <= 0 || mbs > 105 { // no faster than the wire lets it
			t.Errorf("%s: %v MB/s, %v", k.name, mbs, err)
		}
		if p50, p99, err := echoOne(tg.addr, 5); err != nil || p50 < 10 || p99 < p50 {
			t.Errorf("%s: %v ms, %v ms, %v", k.name, p50, p99, err)
		}
	}
}

func TestReplace(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	write := func(s string) {
		if err := os.WriteFile(page, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + runBegins + "old\n" + runEnds + "\nafter\n")
	if err := replace(page, []byte("new\n")); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(page)
	if want := "before\n" + runBegins + "new\n\n" + runEnds + "\nafter\n"; string(b) != want || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	write("nothing")
	if err := replace(page, nil); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestPrint(t *testing.T) {
	s := map[string][]sample{
		"ssh":  {{one: 40, p50: 41, opened: 86, beside: 30, all: 1}, {one: 20, p50: 41, opened: 86, beside: 30, all: 1}},
		"lane": {{one: 80, p50: 42, opened: 43, beside: 70, all: 0.5}, {one: 20, p50: 42, opened: 43, beside: 18, all: 0.5}},
	}
	r := results{o: &options{reps: 2, bytes: 32 << 20}, targets: []*target{{name: "ssh"}, {name: "lane"}}, samples: s, dead: []float64{9.5, 9.7}, memory: 33}
	var b strings.Builder
	r.print(&b)
	for _, line := range []string{
		"| lane | 50 | 44 | 42.0 | 0.0 | 43.0 | 0.50 | 0 |", "| one stream, x ssh's, at least 1.5 | 1.50 | met |",
		"| a dead peer is found, s, at most 10 (the slowest of all) | 9.70 | met |", "less than 64 | 33.00 | met |",
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, &b)
		}
	}
}
