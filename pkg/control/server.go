package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"lane/pkg/traffic"
)

// Session is what the control API shows and ends.
type Session interface {
	Status(ctx context.Context) Status
	// Stop begins the end of the session and waits until it has ended, or ctx
	// has; its error says what was left behind.
	Stop(ctx context.Context, force bool) error
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

// Serve answers until ctx ends, lets the answers under way finish, and removes
// the socket.
func (s *Server) Serve(ctx context.Context, sess Session, log *traffic.Log) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, sess.Status(r.Context()))
	})
	mux.HandleFunc("GET /v1/exchanges", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		after, err1 := strconv.ParseUint(q.Get("after"), 10, 64)
		limit, err2 := strconv.Atoi(q.Get("limit"))
		wait, err3 := time.ParseDuration(q.Get("wait"))
		heads, err4 := math.MaxInt, error(nil) // a viewer of an older version does not say
		if q.Has("heads") {
			heads, err4 = strconv.Atoi(q.Get("heads"))
		}
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			reply(w, http.StatusBadRequest, failure{Error: err.Error()})
			return
		}
		rows, lost := log.Since(after, limit)
		if len(rows) == 0 && wait > 0 {
			c, cancel := context.WithTimeout(r.Context(), min(wait, maxWait))
			defer cancel()
			stop := context.AfterFunc(ctx, cancel)
			defer stop()
			rows, lost, _ = log.Next(c, after, limit) // no rows in time is an empty answer
		}
		row := NewExchange
		if len(rows) > heads {
			row = headless
		}
		out := page{Rows: make([]Exchange, len(rows)), Lost: lost}
		for i := range rows {
			out.Rows[i] = row(&rows[i])
		}
		reply(w, http.StatusOK, out)
	})
	mux.HandleFunc("GET /v1/exchanges/{seq}", func(w http.ResponseWriter, r *http.Request) {
		seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
		if err != nil {
			reply(w, http.StatusBadRequest, failure{Error: err.Error()})
			return
		}
		e, ok := log.Get(seq)
		if !ok {
			reply(w, http.StatusNotFound, failure{Error: "exchange " + strconv.FormatUint(seq, 10) + " is not kept any more"})
			return
		}
		reply(w, http.StatusOK, NewWhole(&e))
	})
	mux.HandleFunc("POST /v1/stop", func(w http.ResponseWriter, r *http.Request) {
		if err := sess.Stop(r.Context(), r.URL.Query().Get("force") == "true"); err != nil {
			reply(w, http.StatusInternalServerError, failure{Error: err.Error()})
			return
		}
		reply(w, http.StatusOK, struct{}{})
	})
	s.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- s.srv.Serve(s.ln) }()
	var err error
	select {
	case <-ctx.Done():
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		// The socket goes first: who looks from now on finds no session.
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
