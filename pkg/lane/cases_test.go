package lane

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRouteCases decides every worked case, and compares all of the decision.
func TestRouteCases(t *testing.T) {
	const file = "../../testdata/route_cases.json"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	snapshots, err := ParseSnapshots(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID, Title string
		Expect    Result
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 68 || len(snapshots) != len(cases) {
		t.Fatalf("%d cases, %d snapshots, want 68 of each", len(cases), len(snapshots))
	}
	for i, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			c.Expect.ID = c.ID
			if diff := cmp.Diff(c.Expect, snapshots[i].Decide()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.Title, diff)
			}
		})
	}
}
