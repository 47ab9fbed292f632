package control

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lane/pkg/traffic"
)

// A stopped process keeps its socket: the system takes calls for it, and nobody
// answers them.
func TestASilentSessionHidesNoOther(t *testing.T) {
	dir := shortDir(t)
	for _, pid := range []string{"11", "12"} {
		ln, err := net.Listen("unix", filepath.Join(dir, pid+".sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
	}
	stop := serve(t, dir, &fake{}, traffic.NewLog(1))
	found, silent, err := Sessions(t.Context(), dir)
	if err != nil || len(found) != 1 || found[0].Status.PID != os.Getpid() {
		t.Errorf("Sessions = %+v, %v; want the one that answers", found, err)
	}
	if silent == nil || !slices.Equal(silent.PIDs, []string{"11", "12"}) {
		t.Errorf("silent = %v, want 11 and 12", silent)
	}
	for _, pid := range []string{"11", "12"} {
		if _, err := os.Lstat(filepath.Join(dir, pid+".sock")); err != nil {
			t.Errorf("the socket of a silent session was removed: %v", err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
