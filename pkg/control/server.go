package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"lane/pkg/traffic"
)

// Session is what the control API shows and ends.
type Session interface {
	Status(ctx context.Context) Status
	// Stop begins the end of the session and waits until it has ended, or ctx
	// has; its error says what was left behind.
	Stop(ctx context.Context, force bool) error
	// Reconnect has the session try again at once what it waits to try again: its
	// tunnel, its registrations, its claims. It does not wait for that.
	Reconnect()
	// Messages are those of an exchange's gRPC bodies, by the description of the
	// server that answered it, which is asked for that.
	Messages(ctx context.Context, e *traffic.Exchange) traffic.Messages
}

// Server serves one session's control API on a socket.
type Server struct {
	sock string
	ln   net.Listener
	srv  *http.Server
}

// maxWait bounds a long poll, so that a viewer that has died is forgotten.
const maxWait = 25 * time.Second

// Listen makes the socket of this process in dir, a directory that only this
// user can enter.
func Listen(dir string) (*Server, error) {
	sock := filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock")
	// Bound under another name and then renamed: a reader that finds the socket
	// refused takes it for a dead session's and removes it, which must not
	// happen between bind and listen.
	tmp := sock + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	ln, err := net.Listen("unix", tmp)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w; set LANE_RUNTIME_DIR to a short path of your own", tmp, err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Rename(tmp, sock); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), ln.Close(), os.Remove(tmp))
	}
	return &Server{sock: sock, ln: ln}, nil
}

// Socket is the path of the socket.
func (s *Server) Socket() string { return s.sock }

// RemoveDead removes a socket if nobody listens behind it any more: another session's
// is at the same path when its process has got the same number.
func RemoveDead(ctx context.Context, sock string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", sock)
	switch {
	case err == nil:
		return c.Close()
	case !refused(err):
		return nil // it is gone, or is none
	}
	if err := os.Remove(sock); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Serve answers until ctx ends, lets the answers under way finish, and removes
// the socket.
func (s *Server) Serve(ctx context.Context, sess Session, log *traffic.Log) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, sess.Status(r.Context()))
	})
	viewed := newViewers(ctx, sess)
	mux.HandleFunc("GET /v1/exchanges", func(w http.ResponseWriter, r *http.Request) {
		viewed.answer(w, r, func() { exchanges(ctx, w, r, log, viewed.tell) })
	})
	mux.HandleFunc("GET /v1/exchanges/{seq}", func(w http.ResponseWriter, r *http.Request) {
		if e := exchange(w, r, log); e != nil {
			reply(w, http.StatusOK, NewWhole(e))
		}
	})
	mux.HandleFunc("GET /v1/exchanges/{seq}/messages", func(w http.ResponseWriter, r *http.Request) {
		if e := exchange(w, r, log); e != nil {
			reply(w, http.StatusOK, sess.Messages(r.Context(), e))
		}
	})
	mux.HandleFunc("POST /v1/stop", func(w http.ResponseWriter, r *http.Request) {
		if err := sess.Stop(r.Context(), r.URL.Query().Get("force") == "true"); err != nil {
			reply(w, http.StatusInternalServerError, failure{Error: err.Error()})
			return
		}
		reply(w, http.StatusOK, struct{}{})
	})
	mux.HandleFunc("POST /v1/reconnect", func(w http.ResponseWriter, _ *http.Request) {
		sess.Reconnect()
		reply(w, http.StatusOK, struct{}{})
	})
	s.srv = &http.Server{Handler: viewed.only(mux), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- s.srv.Serve(s.ln) }()
	var err error
	select {
	case <-ctx.Done():
		// Who looks from now on finds no session; its viewers hear of its end.
		viewed.wait(goodbye)
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		err = errors.Join(s.remove(), s.srv.Shutdown(c))
		if errors.Is(err, context.DeadlineExceeded) {
			err = s.srv.Close()
		}
		_ = <-done // it was told to end
	case err = <-done:
		err = errors.Join(err, s.srv.Close(), s.remove())
	}
	return err
}

// remove removes the socket, which somebody may have tidied away already.
func (s *Server) remove() error {
	if err := os.Remove(s.sock); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// exchange is the one that is asked for; nil where there is none, which is then said.
func exchange(w http.ResponseWriter, r *http.Request, log *traffic.Log) *traffic.Exchange {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
	if err != nil {
		reply(w, http.StatusBadRequest, failure{Error: err.Error()})
		return nil
	}
	e, ok := log.Get(seq)
	if !ok {
		reply(w, http.StatusNotFound, failure{Error: "exchange " + strconv.FormatUint(seq, 10) + " is not kept any more"})
		return nil
	}
	return &e
}

// question is what a viewer asks for.
type question struct {
	after uint64
	limit int // rows at once; those that come next are left for the next time
	most  int // rows at once; of more, the newest, and the figures of the rest. 0: no limit
	heads int // rows at once that have their heads
	wait  time.Duration
}

func questionOf(q url.Values) (question, error) {
	var a question
	var err, err2, err3, err4, err5 error
	a.after, err = strconv.ParseUint(q.Get("after"), 10, 64)
	a.limit, err2 = strconv.Atoi(q.Get("limit"))
	a.wait, err3 = time.ParseDuration(q.Get("wait"))
	a.heads = math.MaxInt // a viewer of an older version does not say
	if q.Has("heads") {
		a.heads, err4 = strconv.Atoi(q.Get("heads"))
	}
	if q.Has("most") {
		a.most, err5 = strconv.Atoi(q.Get("most"))
	}
	return a, errors.Join(err, err2, err3, err4, err5)
}

// batches is memory for answers: a viewer asks many times a second.
var batches = sync.Pool{New: func() any { return new(answer) }}

type answer struct {
	batch traffic.Batch
	bytes []byte
}

// exchanges answers with what is newer than the viewer has. It waits for that until
// the viewer's time is over, or ctx. told is called before the answer begins.
func exchanges(ctx context.Context, w http.ResponseWriter, r *http.Request, log *traffic.Log, told func(w http.ResponseWriter, r *http.Request)) {
	q, err := questionOf(r.URL.Query())
	if err != nil {
		reply(w, http.StatusBadRequest, failure{Error: err.Error()})
		return
	}
	c, cancel := context.WithTimeout(r.Context(), min(max(q.wait, 0), maxWait))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	a := batches.Get().(*answer)
	defer batches.Put(a)
	defer a.clear()
	b := &a.batch
	// No rows in time is an empty answer.
	if r.Header.Get("Accept") != rowsType {
		b.Rows, b.Lost, _ = log.AppendNext(c, b.Rows[:0], q.after, q.limit)
		row := NewExchange
		if len(b.Rows) > q.heads {
			row = headless
		}
		out := page{Rows: make([]Exchange, len(b.Rows)), Lost: b.Lost}
		for i := range b.Rows {
			out.Rows[i] = row(&b.Rows[i])
		}
		told(w, r)
		reply(w, http.StatusOK, out)
		return
	}
	if q.limit > 0 {
		b.Rows, b.Lost, _ = log.AppendNext(c, b.Rows[:0], q.after, q.limit)
	} else {
		_ = log.BatchInto(c, b, q.after, q.most)
	}
	a.bytes = appendBatch(a.bytes[:0], b, len(b.Rows) <= q.heads)
	told(w, r)
	w.Header().Set("Content-Type", rowsType)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.bytes)))
	_, _ = w.Write(a.bytes) // the reader is gone: nobody is left to tell
}

// clear lets go of what was answered: the strings, and memory that only a viewer's
// first look needs.
func (a *answer) clear() {
	const usual = 1000
	if cap(a.batch.Rows) > usual {
		*a = answer{}
		return
	}
	clear(a.batch.Rows)
	clear(a.batch.Left)
	a.batch = traffic.Batch{Rows: a.batch.Rows[:0], Left: a.batch.Left[:0]}
}

type failure struct {
	Error string `json:"error"`
}

type page struct {
	Rows []Exchange `json:"rows"`
	Lost uint64     `json:"lost"`
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the reader is gone: nobody is left to tell
}
