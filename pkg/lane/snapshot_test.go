package lane

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

func TestParseSnapshotsForms(t *testing.T) {
	const input = `{"tag":"gray","instances":[{"id":"b1"}]}`
	for name, tc := range map[string]struct {
		text string
		ids  []string
	}{
		"an input":           {input, []string{""}},
		"an object":          {`{"id":"X1","input":` + input + `}`, []string{"X1"}},
		"an object, no id":   {`{"input":` + input + `}`, []string{""}},
		"an array":           {`[{"id":"X1","input":` + input + `},{"id":"X2","title":"t","expect":{"a":1},"input":` + input + `}]`, []string{"X1", "X2"}},
		"an empty array":     {`[]`, nil},
		"nulls are defaults": {`{"tag":null,"trace_lane":null,"caller":null,"cfg":{"known_lanes":null,"active_group":null},"registry":null,"instances":[{"id":"a","lane":null,"uptime_s":null}]}`, []string{""}},
		"whole floats":       {`{"hops":3.0,"instances":[{"id":"a","weight":2e0}]}`, []string{""}},
	} {
		got, err := ParseSnapshots(strings.NewReader(tc.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var ids []string
		for _, s := range got {
			ids = append(ids, s.ID)
			if s.Decide().Kind == "" {
				t.Errorf("%s: no decision", name)
			}
		}
		if strings.Join(ids, " ") != strings.Join(tc.ids, " ") || len(ids) != len(tc.ids) {
			t.Errorf("%s: ids %q, want %q", name, ids, tc.ids)
		}
	}
}

func TestParseSnapshotsRefuses(t *testing.T) {
	in := func(fields string) string { return `{` + fields + `"instances":[{"id":"b1"}]}` }
	cfg := func(fields string) string { return in(`"cfg":{` + fields + `},`) }
	for _, tc := range []struct{ text, field, says string }{
		{``, "", "no JSON"},
		{`{`, "", "no JSON"},
		{`{} {}`, "", "no JSON"},
		{`null`, "", "must be an object"},
		{`"x"`, "", "must be an object"},
		{`{}`, "instances", "missing"},
		{`{"instances":null}`, "instances", "missing"},
		{`{"instances":{}}`, "instances", "a list"},
		{`{"instances":[null]}`, "instances[0]", "must be an object"},
		{`{"instances":[{}]}`, "instances[0].id", "missing"},
		{`{"instances":[{"id":"a"},{"id":7}]}`, "instances[1].id", "must be a string"},
		{`{"instances":[{"id":"a","health":"ill"}]}`, "instances[0].health", `"ill"`},
		{`{"instances":[{"id":"a","weight":0.5}]}`, "instances[0].weight", "whole number"},
		{`{"instances":[{"id":"a","weight":1e99}]}`, "instances[0].weight", "whole number"},
		{`{"instances":[{"id":"a","draining":"yes"}]}`, "instances[0].draining", "true or false"},
		{`{"instances":[{"id":"a","Lane":"gray"}]}`, "instances[0].Lane", "unknown field"},
		{in(`"Tag":"gray",`), "Tag", "unknown field"},
		{in(`"tag":7,`), "tag", "must be a string"},
		{in(`"hops":-1,`), "hops", "at least 0"},
		{in(`"hops":1.5,`), "hops", "whole number"},
		{in(`"host_class":"other",`), "host_class", "must be mesh, or external"},
		{in(`"caller":{"envs":"x"},`), "caller.envs", "unknown field"},
		{in(`"caller":[],`), "caller", "must be an object"},
		{in(`"counters":{"cross":-1},`), "counters.cross", "at least 0"},
		{in(`"registry":{"state":"old"},`), "registry.state", `"old"`},
		{in(`"registry":{"age_s":-1},`), "registry.age_s", "at least 0"},
		{in(`"declared":"gray",`), "declared", "a list of strings"},
		{cfg(`"mode":"lax"`), "cfg.mode", `"lax"`},
		{cfg(`"mode":7`), "cfg.mode", "must be a string"},
		{cfg(`"no_match":"fall"`), "cfg.no_match", `"fall"`},
		{cfg(`"degrade_ratio":1.01`), "cfg.degrade_ratio", "between 0 and 1"},
		{cfg(`"degrade_ratio":-0.1`), "cfg.degrade_ratio", "between 0 and 1"},
		{cfg(`"degrade_ratio":"NaN"`), "cfg.degrade_ratio", "must be a number"},
		{cfg(`"degrade_ratio":1e999`), "cfg.degrade_ratio", "must be a number"},
		{cfg(`"kill_switch":1`), "cfg.kill_switch", "true or false"},
		{cfg(`"killed_lanes":["a",1]`), "cfg.killed_lanes", "a list of strings"},
		{cfg(`"invalid_tag":"ignore"`), "cfg.invalid_tag", `"ignore"`},
		{cfg(`"unhealthy_lane":"x"`), "cfg.unhealthy_lane", `"x"`},
		{cfg(`"meta_keys":["lane","subset"]`), "cfg.meta_keys", `"subset"`},
		{cfg(`"zone_mode":"x"`), "cfg.zone_mode", `"x"`},
		{cfg(`"max_cross":2`), "cfg.max_cross", "between 0 and 1"},
		{cfg(`"on_empty":""`), "cfg.on_empty", `""`},
		{cfg(`"min_local":-1`), "cfg.min_local", "at least 0"},
		{cfg(`"warmup_s":-1`), "cfg.warmup_s", "at least 0"},
		{cfg(`"warmup_curve":"cubic"`), "cfg.warmup_curve", `"cubic"`},
		{cfg(`"max_stale_s":-1`), "cfg.max_stale_s", "at least 0"},
		{cfg(`"max_hops":0`), "cfg.max_hops", "at least 1"},
		{cfg(`"baseline_static":[""]`), "cfg.baseline_static", "empty address"},
		{cfg(`"retries":3`), "cfg.retries", "unknown field"},
		{`[{"input":{}}]`, "id", "missing"},
		{`[{"id":5,"input":{}}]`, "id", "must be a string"},
		{`[{"id":"A"}]`, "input", "missing"},
		{`[{"id":"A","input":[]}]`, "", "must be an object"},
		{`[{"id":"A","cfg":{},"input":{"instances":[]}}]`, "cfg", "belongs inside input"},
		{`[{"instances":[]}]`, "id", "missing"},
		{`[7]`, "", "must be an object"},
	} {
		got, err := ParseSnapshots(strings.NewReader(tc.text))
		var bad *SnapshotError
		if !errors.As(err, &bad) || bad.Field != tc.field || !strings.Contains(err.Error(), tc.says) || got != nil {
			t.Errorf("%s\n got %v, want field %q and %q", tc.text, err, tc.field, tc.says)
		}
	}
}

func TestParseSnapshotsNamesTheCase(t *testing.T) {
	_, err := ParseSnapshots(strings.NewReader(`[{"id":"A","input":{"instances":[]}},{"id":"B7","input":{"cfg":{"no_match":"x"},"instances":[]}}]`))
	want := `case B7: cfg.no_match: "x": must be fallback, fail, or proportional`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestParseSnapshotsPassesTheReadersError(t *testing.T) {
	broken := errors.New("broken")
	if _, err := ParseSnapshots(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestResultJSON pins the names and the forms of the result.
func TestResultJSON(t *testing.T) {
	s, err := ParseSnapshots(strings.NewReader(`[
		{"id":"A","input":{"tag":"gray","instances":[{"id":"b","weight":2},{"id":"a","weight":1}]}},
		{"id":"B","input":{"tag":"Bad!","cfg":{"mode":"strict"},"instances":[]}}]`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`{"id":"A","kind":"FALLBACK_BASELINE","reason":"lane_absent","code":null,"http":null,"effective_lane":"gray","chosen":["a","b"],"weights":{"a":0.3333,"b":0.6667},"metrics":["lane_fallback_total{reason=lane_absent}"],"warnings":[]}`,
		`{"id":"B","kind":"ERROR","reason":"tag_invalid","code":"E_LANE_TAG_INVALID","http":400,"effective_lane":null,"chosen":[],"weights":{},"metrics":["lane_route_errors_total{code=E_LANE_TAG_INVALID}"],"warnings":[]}`,
	} {
		got, err := json.Marshal(s[i].Decide())
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
}

func FuzzSnapshots(f *testing.F) {
	cases, err := os.ReadFile("../../testdata/route_cases.json")
	if err != nil {
		f.Fatal(err)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(cases, &all); err != nil {
		f.Fatal(err)
	}
	for _, c := range all {
		var small bytes.Buffer
		if err := json.Compact(&small, c); err != nil {
			f.Fatal(err)
		}
		f.Add(small.Bytes())
	}
	for _, e := range edges {
		f.Add([]byte(e.input))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		snapshots, err := ParseSnapshots(bytes.NewReader(data))
		if err != nil {
			var bad *SnapshotError
			if !errors.As(err, &bad) || err.Error() == "" {
				t.Fatalf("error without a field: %v", err)
			}
			return
		}
		for _, s := range snapshots {
			r, err := NewRouter(s.Policy)
			if err != nil {
				t.Fatalf("a policy got through: %v", err)
			}
			got := s.Decide()
			if line, err := json.Marshal(got); err != nil || bytes.ContainsRune(line, '\n') {
				t.Fatalf("%s, %v", line, err)
			}
			e := r.Explain(s.Catalog, s.Request)
			if want := e.Decision.Result(s.ID); want.Kind != got.Kind || want.Reason != got.Reason {
				t.Fatalf("explained as %s, decided %s", want.Kind, got.Kind)
			}
		}
	})
}
