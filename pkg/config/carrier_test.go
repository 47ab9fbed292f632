package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
)

func TestCarriers(t *testing.T) {
	for _, c := range []struct {
		name, text string
		header     string // a request's header, with tag dev-a
		value      string
		read       bool
		written    bool
	}{
		{"the default", "", "x-lane-tag", "dev-a", true, true},
		{"not another's", "", "x-mse-tag", "dev-a", false, false},
		{"a preset is written and read", "preset: mse", "x-mse-tag", "dev-a", true, true},
		{"a preset with a word of its own", "preset: 'polaris:team'", "service-lane", "team/dev-a", true, true},
		{"the wrong word", "preset: 'polaris:team'", "service-lane", "other/dev-a", false, true},
		{"accepted is read only", "accept: [mse]", "x-mse-tag", "dev-a", true, false},
		{"accepted header", "accept: [x-old-lane]", "X-Old-Lane", "dev-a", true, false},
		{"accepted twice is written", "preset: mse\naccept: [mse]", "x-mse-tag", "dev-a", true, true},
		{"own header", "header: x-team", "x-team", "dev-a", true, true},
		{"own header still reads the default", "header: x-team", "x-lane-tag", "dev-a", true, false},
		{"baggage", "header: x-team", "baggage", "lane=dev-a", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := loadText(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			carriers, err := s.Carriers()
			if err != nil {
				t.Fatal(err)
			}
			tag := carriers.Read(map[string][]string{c.header: {c.value}})
			if got := tag.Kind == lane.TagLane && tag.Lane == "dev-a"; got != c.read {
				t.Errorf("read: %+v, want %v", tag, c.read)
			}
			h := map[string][]string{}
			carriers.Write(h, "dev-a")
			if got := len(h[strings.ToLower(c.header)]) > 0; got != c.written {
				t.Errorf("written: %v, want %v", h, c.written)
			}
		})
	}
}

func TestPresetsWithAWordMustFit(t *testing.T) {
	for text, want := range map[string]string{
		"preset: 'mse:x'":          "takes nothing after a colon",
		"preset: 'polaris:a b'":    "cannot be part of a header",
		"accept: ['mse:x']":        "takes nothing after a colon",
		"accept: ['polaris:team']": "",
	} {
		_, err := loadText(t, text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestPolicy(t *testing.T) {
	for text, want := range map[string][3]string{
		"":               {"relaxed", "fallback", "reject"},
		"no_match: fail": {"relaxed", "fail", "reject"},
		"strict: true":   {"strict", "fail", "reject"},
		"strict: false":  {"relaxed", "fallback", "reject"},
	} {
		s, err := loadText(t, text)
		if err != nil {
			t.Fatal(err)
		}
		p := s.Policy()
		if got := [3]string{string(p.Mode), string(p.NoMatch), string(p.InvalidTag)}; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if p.MaxStale != lane.DefaultPolicy().MaxStale {
			t.Errorf("%q: %v", text, p.MaxStale)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	all, err := loadText(t, "no_match: proportional\ndegrade_ratio: 0.25\nunhealthy_lane: fallback\nwarmup: 90s\nwarmup_curve: quadratic\nmin_local: 2\nmax_cross: 0.1\non_empty: cap")
	if err != nil {
		t.Fatal(err)
	}
	want := lane.DefaultPolicy()
	want.InvalidTag, want.NoMatch, want.DegradeRatio = lane.InvalidReject, lane.NoMatchProportional, 0.25
	want.UnhealthyLane, want.Zone, want.Warmup = lane.UnhealthyFallback, lane.ZoneAffinity, 90*time.Second
	want.Curve, want.MinLocal, want.MaxCross, want.OnEmpty = lane.CurveQuadratic, 2, 0.1, lane.OnEmptyCap
	if got := all.Policy(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if off, err := loadText(t, "zone_mode: off"); err != nil || off.Policy().Zone != lane.ZoneOff {
		t.Errorf("%+v %v", off, err)
	}
	s, err := loadText(t, "max_stale: 0s")
	if err != nil || s.Policy().MaxStale != 0 {
		t.Errorf("%+v %v", s, err)
	}
}
