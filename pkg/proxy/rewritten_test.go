package proxy

import (
	"fmt"
	"net/http"
	"testing"

	"lane/pkg/lane"
	"lane/pkg/tracemap"
)

// What an application writes over the entry's tag goes no further than its sidecar,
// neither to the lane of that name nor, in the head, to where the next one decides.
func TestSidecarPassesOnWhatTheEntrySaid(t *testing.T) {
	for _, tt := range []struct {
		entry, wrote  string
		who, tag, bag string
		conflict      uint64
	}{
		{"baseline", "dev-bob", "base", "baseline", "a=1,lane=baseline", 1},
		{"baseline", "Not A Lane", "base", "baseline", "a=1,lane=baseline", 1},
		{"baseline", "", "base", "baseline", "a=1,lane=baseline", 0},
		{"baseline", "stable", "base", "stable", "a=1", 0}, // says the same
		{"dev-alice", "dev-bob", "alice", "dev-alice", "a=1,lane=dev-alice", 1},
		{"dev-alice", "baseline", "alice", "dev-alice", "a=1,lane=dev-alice", 1},
		{"", "dev-bob", "bob", "dev-bob", "a=1,lane=dev-bob", 0}, // nothing is known of its trace
	} {
		t.Run(tt.entry+" and "+tt.wrote, func(t *testing.T) {
			e := newEnv(t, func(cfg *Config) {
				cfg.Lane = ""
				cfg.TraceLane = func(*tracemap.Keys) lane.Name { return lane.Name(tt.entry) }
			})
			var in []lane.Instance
			for name, l := range map[string]string{"base": "", "alice": "dev-alice", "bob": "dev-bob"} {
				b := newBackend(t, name, func(w http.ResponseWriter, r *http.Request) {
					fmt.Fprintf(w, "%s %s %s", name, r.Header.Get("x-lane-tag"), r.Header.Get("baggage"))
				})
				in = append(in, instance(name, b.addr(), l))
			}
			e.reg.set(service("next", in...))
			h := http.Header{"Baggage": {"a=1"}}
			if tt.wrote != "" {
				h.Set("x-lane-tag", tt.wrote)
			}
			a := do(t, e.client(), "GET", "http://next/", h, nil)
			if want := fmt.Sprintf("%s %s %s", tt.who, tt.tag, tt.bag); a.status != 200 || a.body != want {
				t.Errorf("%d %q, want %q", a.status, a.body, want)
			}
			if n := e.tr.Counts().Total(metricTagConflict); n != tt.conflict {
				t.Errorf("%d conflicts were counted, want %d", n, tt.conflict)
			}
		})
	}
}
