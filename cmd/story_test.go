//go:build unix

package cmd

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lane/pkg/consul/consultest"

	"github.com/rogpeppe/go-internal/testscript"
)

// The stories in testdata/script run the program's Main as processes of their
// own, against the embedded registry and against the real Consul.

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lane": func() { os.Exit(Main()) }, "goclient": goClient})
}

func TestStories(t *testing.T) {
	const glob = "../testdata/script/*.txtar"
	t.Run("embedded", func(t *testing.T) { stories(t, glob, consultest.Embedded) })
	t.Run("consul", func(t *testing.T) {
		binary := consultest.Needed(t)
		stories(t, glob, func(tb testing.TB) string { return consultest.Start(tb, binary) })
	})
}

func stories(t *testing.T, glob string, start func(testing.TB) string) {
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories at %s: %v", glob, err)
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			w, err := newWorld(env, start)
			if err != nil {
				return err
			}
			env.Values[worldKey{}] = w
			return nil
		},
		Cmds: storyCommands,
	})
}

type worldKey struct{}

// worldOf is the world of the story that runs.
func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// storyLimit bounds every waiting of a story: it is there to end one that hangs,
// and no measure of speed.
const storyLimit = time.Minute

func storyContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), storyLimit)
}
