package cmd

import (
	"path/filepath"
	"strings"
	"testing"
)

// A session whose command ends at once was up, and nobody saw it.
func TestADetachedSessionThatEndedWell(t *testing.T) {
	log := filepath.Join(t.TempDir(), "none.log")
	err := (&factory{}).failedStart(log, nil)
	if err == nil || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "has ended already") || !strings.Contains(err.Error(), log) {
		t.Errorf("%v", err)
	}
}
