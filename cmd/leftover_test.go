//go:build unix

package cmd

import (
	"path/filepath"
	"testing"

	"lane/pkg/consul/consultest"
)

// What a story that has failed has left running is ended, at each of its machines: such a
// session went on for days, and took the machine's time from the stories that followed.
func TestAStoryThatFailsLeavesNoSession(t *testing.T) {
	t.Parallel()
	f := newFieldOn(t, consultest.Embedded(t))
	far := filepath.Join(f.dir, "bob")
	near := f.getenv("LANE_RUNTIME_DIR")
	w := &world{registry: f.registry, runtime: near, dir: f.dir}
	t.Cleanup(w.endSessions)
	port := f.app("local").port()
	for i, runtime := range []string{near, filepath.Join(near, "desk"), far} {
		m := *f
		m.env = append(append([]string(nil), f.env...), "LANE_RUNTIME_DIR="+runtime)
		m.run("lane", "up", "dev-"+string(rune('a'+i)), "-s", "orders="+port, "-d")
	}
	if all := w.machines(); len(all) != 3 {
		t.Fatalf("sessions at %v", all)
	}
	w.endSessions()
	f.eventually("their guardians have removed their sockets", func() bool { return len(w.machines()) == 0 })
}
