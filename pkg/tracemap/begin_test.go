package tracemap

import (
	"slices"
	"strings"
	"testing"
)

// What begins a trace is read as every other one is, in each form; its two ids are
// one number; and no two traces are one.
func TestBegin(t *testing.T) {
	settings := []string{Auto, "X-My-Trace"}
	for _, s := range auto {
		settings = append(settings, s.header)
	}
	seen := map[string]bool{}
	for _, setting := range settings {
		s, err := ParseSources(setting)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			start := s.Begin()
			var k Keys
			s.Read(value(&start), &k)
			if k.Len() == 0 || k.ID().String() != start.ID || seen[start.ID] || seen[k.At(0).String()] {
				t.Fatalf("%s: %+v is read as %v", setting, start, text(&k))
			}
			seen[start.ID], seen[k.At(0).String()] = true, true
			for _, f := range start.Fields() {
				if f.Name != strings.ToLower(f.Name) || !slices.Contains(s.Names(), f.Name) {
					t.Fatalf("%s: %q is passed on where a trace begins", setting, f.Name)
				}
			}
		}
	}
	var all Sources
	start := all.Begin()
	f := start.Fields()
	if len(f) != 2 || f[0].Name != "traceparent" || f[1].Name != "x-request-id" || f[0].Value[3:35] != start.ID ||
		strings.ReplaceAll(f[1].Value, "-", "") != start.ID || f[1].Value[14] != '4' || !strings.HasSuffix(f[0].Value, "-01") {
		t.Errorf("%+v", start)
	}
	if n := testing.AllocsPerRun(100, func() { all.Begin() }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// A trace that is not recorded says so in each form that can, and is read all the same.
func TestBeginUnsampled(t *testing.T) {
	for setting, want := range map[string][2]string{ // recorded, and not
		Auto:                 {"traceparent -01", "traceparent -00"},
		"traceparent":        {"traceparent -01", "traceparent -00"},
		"b3":                 {"b3 -1", "b3 -0"},
		"x-b3-traceid":       {"x-b3-sampled 1", "x-b3-sampled 0"},
		"uber-trace-id":      {"uber-trace-id :0:1", "uber-trace-id :0:0"},
		"x-datadog-trace-id": {"x-datadog-sampling-priority 1", "x-datadog-sampling-priority 0"},
		"x-amzn-trace-id":    {"x-amzn-trace-id ;Sampled=1", "x-amzn-trace-id ;Sampled=0"},
	} {
		recorded, err := ParseSources(setting)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range []Sources{recorded, recorded.Unsampled()} {
			name, end, _ := strings.Cut(want[i], " ")
			start := s.Begin()
			at := slices.IndexFunc(start.Fields(), func(f Field) bool { return f.Name == name })
			if at < 0 || !strings.HasSuffix(start.Fields()[at].Value, end) {
				t.Errorf("%s: %+v, want %s", setting, start.Fields(), want[i])
			}
			var k Keys
			if s.Read(value(&start), &k); k.Len() == 0 || k.ID().String() != start.ID {
				t.Errorf("%s: %+v is read as %v", setting, start, text(&k))
			}
		}
	}
	sky, err := ParseSources("sw8")
	if err != nil {
		t.Fatal(err)
	}
	one, other := sky.Begin(), sky.Unsampled()
	two := other.Begin()
	if !strings.HasPrefix(one.Fields()[0].Value, "1-") || !strings.HasPrefix(two.Fields()[0].Value, "0-") {
		t.Errorf("%+v %+v", one, two)
	}
}

// value finds what a trace begins with by a header's name.
func value(start *Start) func(string) string {
	return func(name string) string {
		for _, f := range start.Fields() {
			if strings.EqualFold(f.Name, name) {
				return f.Value
			}
		}
		return ""
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
