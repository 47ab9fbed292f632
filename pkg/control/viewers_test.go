package control

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"lane/pkg/traffic"
)

// ending is a session with a word for its end.
type ending struct {
	fake
	over atomic.Bool
}

func (e *ending) Status(ctx context.Context) Status {
	st := e.fake.Status(ctx)
	st.State = SessionUp
	if e.over.Load() {
		st.State, st.History = SessionEnded, []Event{{Text: "ended: bob has taken it over"}}
	}
	return st
}

// A viewer hears of the end with the answer that it waits for, one between two polls
// with its next; who only looked finds no session, and holds up nobody.
func TestViewersHearOfTheEnd(t *testing.T) {
	for name, between := range map[string]bool{"in a poll": false, "between two": true} {
		t.Run(name, func(t *testing.T) {
			dir, log, sess := shortDir(t), traffic.NewLog(10), &ending{}
			log.Put(traffic.Exchange{})
			stop := serve(t, dir, sess, log)
			viewer, looker := Dial(dir, os.Getpid()), Dial(dir, os.Getpid())
			if _, _, err := viewer.Next(t.Context(), 0, 0); err != nil {
				t.Fatal(err)
			}
			if st, err := looker.Status(t.Context()); err != nil || st.State != SessionUp {
				t.Fatalf("Status = %+v, %v", st, err)
			}
			polled := make(chan error, 1)
			poll := func() {
				_, _, err := viewer.Next(t.Context(), 1, 0)
				polled <- err
			}
			if !between {
				go poll()
			}
			sess.over.Store(true)
			stopped := make(chan error, 1)
			go func() { stopped <- stop() }()
			for { // the end has begun
				if _, err := looker.Status(t.Context()); errors.Is(err, ErrGone) {
					break
				}
			}
			if between {
				go poll()
			}
			if err := <-polled; !errors.Is(err, ErrGone) {
				t.Errorf("the viewer's poll: %v", err)
			}
			if err := <-stopped; err != nil {
				t.Fatal(err)
			}
			if st, ok := viewer.Last(); !ok || st.State != SessionEnded || len(st.History) != 1 {
				t.Errorf("the viewer's last status: %+v, %v", st, ok)
			}
			if st, ok := looker.Last(); ok {
				t.Errorf("who never polled was told %+v", st)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A dead session's socket goes; one that is answered, of a process that has got the same
// number, stays.
func TestOnlyADeadSocketIsRemoved(t *testing.T) {
	dir := shortDir(t)
	stop := serve(t, dir, &fake{}, traffic.NewLog(1))
	sock := Dial(dir, os.Getpid()).sock
	if err := RemoveDead(t.Context(), sock); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(sock); err != nil {
		t.Fatalf("the socket of a session that answers: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	dead, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.ln.Close(); err != nil { // as a killed process does
		t.Fatal(err)
	}
	for range 2 { // the second time it is gone
		if err := RemoveDead(t.Context(), sock); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(sock); !os.IsNotExist(err) {
		t.Errorf("a dead session's socket is there: %v", err)
	}
}
