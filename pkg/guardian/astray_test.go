//go:build unix

package guardian

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What was cut off on its way to the registry may come long after its removal.
func TestWhatWasCutOffIsLookedForAgain(t *testing.T) {
	for ward, want := range map[string]struct {
		looks int
		took  time.Duration
	}{
		`{"session":"s"}`:               {2, settle},
		`{"session":"s","astray":true}`: {astrayLooks, 63 * settle},
	} {
		synctest.Test(t, func(t *testing.T) {
			looks := 0
			from := time.Now()
			clean := func(context.Context, Ward) error { looks++; return nil }
			if err := Watch(t.Context(), strings.NewReader(ward+"\n"), time.Minute, clean); err != nil || looks != want.looks {
				t.Errorf("%s: %d looks, %v", ward, looks, err)
			}
			if took := time.Since(from); took != want.took {
				t.Errorf("%s: it took %s", ward, took)
			}
		})
	}
}
