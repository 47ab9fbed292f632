package cmd

import (
	"strings"
	"testing"
)

func TestOwnLane(t *testing.T) {
	for user, want := range map[string]string{"alice": "dev-alice", `CORP\Bob.Smith`: "dev-bob-smith", "": "", "Ännä": "dev-nn"} {
		if got := ownLane(user); got != want {
			t.Errorf("%q: %q, want %q", user, got, want)
		}
	}
	if _, err := readLane("dev-alice"); err != nil {
		t.Error(err)
	}
	if _, err := readLane("dev"); err == nil || strings.Contains(err.Error(), "dev-dev") {
		t.Error(err)
	}
}
