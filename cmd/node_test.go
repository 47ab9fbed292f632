package cmd

import "testing"

func TestNodeMisses(t *testing.T) {
	const all, request = "ignores NODE_USE_ENV_PROXY", "knows NODE_USE_ENV_PROXY in fetch alone, not in http.request"
	for version, want := range map[string]string{
		"v18.20.4": all, "v20.20.2": all, "v22.20.0": all, "v22.21.0": "", "v22.22.1": "", "v23.11.1": all,
		"v24.0.0": request, "v24.4.1": request, "v24.5.0": "", "v24.21.0": "", "v26.0.0": "", "v25.0.0-nightly2025": "",
		"": "", "node": "", "20.1.1": "", "v20": "",
	} {
		if got := nodeMisses(version); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}
