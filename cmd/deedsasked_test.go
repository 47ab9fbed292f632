package cmd

import (
	"slices"
	"testing"

	"lane/pkg/control"
)

// The doctor behind the key D looks at what the session serves; one that serves nothing
// has nothing of that kind.
func TestTheDoctorOnTheScreenAsksForTheSessionsServices(t *testing.T) {
	st := &control.Status{Services: []control.Service{{Name: "orders", Local: "127.0.0.1:8080"}, {Name: "stock", Local: "[::1]:8081"}}}
	if got := asked(st); !slices.Equal(got, []string{"orders=8080", "stock=8081"}) {
		t.Errorf("asked for %q", got)
	}
	for _, arg := range asked(st) {
		if err := checkService(arg); err != nil {
			t.Error(err)
		}
	}
	if got := asked(&control.Status{}); got != nil {
		t.Errorf("asked for %q", got)
	}
}
