package tracemap

import (
	"slices"
	"strings"
	"testing"
)

// What begins a trace is read as every other one is, and its two ids are one
// number; no two traces are one.
func TestBegin(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		s := Begin()
		tp := read(t, "traceparent", (&format{Header: "traceparent", Value: s.Traceparent}).get)
		id := read(t, "x-request-id", (&format{Header: "x-request-id", Value: s.RequestID}).get)
		if tp.Len() != 1 || tp.ID().String() != s.ID || id.Len() != 1 || id.At(0).kind != kindUUID || id.ID().String() != s.RequestID {
			t.Fatalf("%+v is read as %v and %v", s, tp.ID(), id.ID())
		}
		if strings.ReplaceAll(s.RequestID, "-", "") != s.ID || s.RequestID[14] != '4' || !strings.HasSuffix(s.Traceparent, "-01") {
			t.Fatalf("%+v", s)
		}
		if seen[s.ID] || seen[tp.At(0).String()] {
			t.Fatalf("%s comes twice", s.ID)
		}
		seen[s.ID], seen[tp.At(0).String()] = true, true
	}
	if n := testing.AllocsPerRun(100, func() { Begin() }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// Every header that is read is among those that a new trace begins without.
func TestNames(t *testing.T) {
	var all Sources
	own, err := ParseSources("X-My-Trace")
	if err != nil {
		t.Fatal(err)
	}
	b3, err := ParseSources("b3")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range auto {
		for _, setting := range []Sources{all, own, b3} {
			if !slices.Contains(setting.Names(), strings.ToLower(s.header)) {
				t.Errorf("%s: %s is missing", setting, s.header)
			}
		}
	}
	if n := all.Names(); !slices.Contains(n, strings.ToLower(headerDatadogTags)) || slices.Contains(n, "x-my-trace") || slices.Contains(n, "baggage") {
		t.Errorf("%v", n)
	}
	if n := own.Names(); !slices.Contains(n, "x-my-trace") || len(n) != len(all.Names())+1 || len(b3.Names()) != len(all.Names()) {
		t.Errorf("%v", n)
	}
	if all.Only() != "" || own.Only() != "x-my-trace" || b3.Only() != "b3" {
		t.Errorf("%q %q %q", all.Only(), own.Only(), b3.Only())
	}
}
