package control

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

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

// Every call ends by itself at a session that takes it and never answers; a caller that
// gives up is told that, and not that the session is silent.
func TestEveryCallHasAnEnd(t *testing.T) {
	dir := shortDir(t)
	ln, err := net.Listen("unix", filepath.Join(dir, "11.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	calls := map[string]func(context.Context, *Client) error{
		"Status":    func(ctx context.Context, c *Client) error { _, err := c.Status(ctx); return err },
		"Whole":     func(ctx context.Context, c *Client) error { _, err := c.Whole(ctx, 1); return err },
		"Since":     func(ctx context.Context, c *Client) error { _, _, err := c.Since(ctx, 0, 0); return err },
		"Reconnect": func(ctx context.Context, c *Client) error { return c.Reconnect(ctx) },
		"batch": func(ctx context.Context, c *Client) error {
			_, err := c.batch(ctx, 0, "limit=1", 0, time.Millisecond)
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			c := Dial(dir, 11)
			c.patience = 10 * time.Millisecond
			var silent *SilentError
			if err := call(t.Context(), c); !errors.As(err, &silent) || !slices.Equal(silent.PIDs, []string{"11"}) {
				t.Errorf("a silent session: %v", err)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := call(gone, c); !errors.Is(err, context.Canceled) || errors.As(err, &silent) {
				t.Errorf("a caller that gave up: %v", err)
			}
		})
	}
}

// A long poll is not silence: it may take as long as it has asked for.
func TestALongPollIsNoSilence(t *testing.T) {
	dir := shortDir(t)
	stop := serve(t, dir, &fake{}, traffic.NewLog(1))
	c := Dial(dir, os.Getpid())
	c.patience = 5 * time.Second
	b, err := c.batch(t.Context(), 0, "limit=1", 0, 50*time.Millisecond)
	if err != nil || len(b.Rows) > 0 {
		t.Errorf("a poll without rows: %+v, %v", b, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
