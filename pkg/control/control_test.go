package control

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a session that waits in Stop until it is let go.
type fake struct {
	stopping chan bool
	again    atomic.Int32
	left     error
}

func (f *fake) Status(context.Context) Status {
	return Status{Schema: StatusSchema, Lane: "dev-alice", PID: os.Getpid(), Services: []Service{{Name: "orders"}}}
}

func (f *fake) Reconnect() { f.again.Add(1) }

func (f *fake) Messages(_ context.Context, e *traffic.Exchange) traffic.Messages {
	return traffic.Messages{Req: []string{`{"url":"` + e.URL + `"}`}, Note: "that is all"}
}

func (f *fake) Stop(_ context.Context, force bool) error {
	f.stopping <- force
	return f.left
}

func serve(t *testing.T, dir string, s Session, log *traffic.Log) (stop func() error) {
	t.Helper()
	srv, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, s, log) }()
	return func() error {
		cancel()
		return <-done
	}
}

func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "lane") // a socket's path is short by nature
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestSessionIsFoundAndEnds(t *testing.T) {
	dir, log := shortDir(t), traffic.NewLog(10)
	f := &fake{stopping: make(chan bool, 1)}
	stop := serve(t, dir, f, log)
	ctx := t.Context()

	found, silent, err := Sessions(ctx, dir)
	if err != nil || silent != nil || len(found) != 1 || found[0].Status.Lane != "dev-alice" {
		t.Fatalf("Sessions = %+v, %v", found, err)
	}
	if _, ok := Holding(found, "dev-alice", "orders"); !ok {
		t.Error("the session that holds orders was not found")
	}
	if _, ok := Holding(found, "dev-bob", "orders"); ok {
		t.Error("a session of another lane was found")
	}
	if err := found[0].Client.Reconnect(ctx); err != nil || f.again.Load() != 1 {
		t.Errorf("the session was asked %d times to try again: %v", f.again.Load(), err)
	}
	if err := found[0].Client.Stop(ctx, true); err != nil {
		t.Fatal(err)
	}
	if force := <-f.stopping; !force {
		t.Error("the wish to force was lost")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// Gone is no error for an end, and says so for a status.
	if err := found[0].Client.Stop(ctx, false); err != nil {
		t.Errorf("Stop of a session that is gone: %v", err)
	}
	if _, err := found[0].Client.Status(ctx); !errors.Is(err, ErrGone) {
		t.Errorf("Status of a session that is gone: %v", err)
	}
}

func TestStopSaysWhatIsLeft(t *testing.T) {
	dir := shortDir(t)
	stop := serve(t, dir, &fake{stopping: make(chan bool, 1), left: errors.New("still registered")}, traffic.NewLog(1))
	err := Dial(dir, os.Getpid()).Stop(t.Context(), false)
	if err == nil || err.Error() != "still registered" {
		t.Errorf("Stop = %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestDeadSocketIsRemoved(t *testing.T) {
	dir := shortDir(t)
	dead := filepath.Join(dir, "1.sock")
	ln, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	found, silent, err := Sessions(t.Context(), dir)
	if err != nil || silent != nil || len(found) != 0 {
		t.Fatalf("Sessions = %v, %v", found, err)
	}
	if _, err := os.Lstat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead socket is still there: %v", err)
	}
}

func TestNextWaitsForTheFirstExchange(t *testing.T) {
	dir, log := shortDir(t), traffic.NewLog(10)
	stop := serve(t, dir, &fake{}, log)
	c := Dial(dir, os.Getpid())
	type answer struct {
		rows []traffic.Exchange
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		rows, _, err := c.Next(context.Background(), 0, AllHeads)
		got <- answer{rows, err}
	}()
	e := traffic.Exchange{Start: time.Unix(1, 0).UTC(), Took: 1500 * time.Microsecond, Front: traffic.FrontGuard, Method: "GET",
		URL: "http://orders/1", Lane: lane.Name("dev-alice"), Kind: lane.KindLaneMatch, Status: 200,
		ReqHeader: traffic.HeadOf(http.Header{"A": {"b"}}), Warnings: []string{"w"}, Guard: traffic.GuardPassed}
	log.Put(e)
	a := <-got
	e.Seq = 1
	if a.err != nil || len(a.rows) != 1 || !reflect.DeepEqual(a.rows[0], e) {
		t.Errorf("Next = %+v, %v; want %+v", a.rows, a.err, e)
	}
	if rows, _, err := c.Since(t.Context(), 1, AllHeads); err != nil || len(rows) != 0 {
		t.Errorf("Since the last one = %v, %v", rows, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestNextEndsWithTheSession(t *testing.T) {
	dir := shortDir(t)
	stop := serve(t, dir, &fake{}, traffic.NewLog(1))
	got := make(chan error, 1)
	c := Dial(dir, os.Getpid())
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _, err := c.Next(context.Background(), 0, 0)
		got <- err
	}()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, ErrGone) {
		t.Errorf("Next after the end = %v", err)
	}
}

func TestBadQueryIsRefused(t *testing.T) {
	dir := shortDir(t)
	stop := serve(t, dir, &fake{}, traffic.NewLog(1))
	var p page
	err := Dial(dir, os.Getpid()).do(t.Context(), http.MethodGet, "/v1/exchanges?after=-1&limit=x&wait=soon", 0, &p)
	if err == nil {
		t.Error("a malformed query was answered")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A session may end at any byte of a call: each end is the session's, none is a
// broken connection that a reader would have to understand.
func TestEveryEndOfASessionIsItsEnd(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"at once": func(net.Conn) {},
		"unread, by force": func(c net.Conn) {
			one := make([]byte, 1) // the rest is unread, which resets the connection
			_, _ = c.Read(one)
		},
		"before the answer": func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) },
		"in the head":       func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-") },
		"in the answer": func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"rows\":[")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			ln, err := net.Listen("unix", filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock"))
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					end(c)
					_ = c.Close()
				}
			}()
			c := Dial(dir, os.Getpid())
			for range 200 { // which of a pipe's errors is seen is a race
				if _, _, err := c.Since(t.Context(), 0, 0); !errors.Is(err, ErrGone) {
					t.Errorf("Since = %v, want %v", err, ErrGone)
					break
				}
			}
			if err := ln.Close(); err != nil {
				t.Error(err)
			}
			<-served
			if _, _, err := c.Since(t.Context(), 0, 0); !errors.Is(err, ErrGone) {
				t.Errorf("Since, with no socket left: %v", err)
			}
		})
	}
}

func TestWhatIsNoEndIsToldAsItIs(t *testing.T) {
	dir := shortDir(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	stop := serve(t, dir, &fake{}, traffic.NewLog(1))
	if _, err := Dial(dir, os.Getpid()).Status(gone); !errors.Is(err, context.Canceled) || errors.Is(err, ErrGone) {
		t.Errorf("a caller that gave up: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(dir, strings.Repeat("x", 200)) // longer than a socket's path can be
	if _, err := Dial(long, os.Getpid()).Status(t.Context()); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("a socket that cannot be opened: %v", err)
	}
}
