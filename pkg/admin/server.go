package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"lane/pkg/chain"
	"lane/pkg/lane"
	"lane/pkg/metrics"
)

// The limits of the port. Nothing that is asked for here is long.
const (
	maxConns   = 64
	maxHead    = 16 << 10
	headWait   = 5 * time.Second
	readWait   = 10 * time.Second
	writeWait  = 30 * time.Second
	idleWait   = time.Minute
	stopWait   = 2 * time.Second
	loopbackIP = "127.0.0.1"
)

// Options are what the port shows. A part that is nil is not there: 404.
type Options struct {
	// Listen is host:port. Without a host it is this machine alone; 0.0.0.0 or
	// an address of a network is what asks for more. Port 0 takes a free one.
	Listen string
	// Hosts are more names and addresses, without ports, that a request may carry in
	// its Host header, e.g. the one by which Prometheus knows this process.
	Hosts []string
	// Metrics answers /metrics.
	Metrics http.Handler
	// Stats answers /v1/stats.
	Stats func() metrics.Stats
	// Trace answers /v1/trace/ID.
	Trace func(id string) chain.Hops
	// Lane answers /v1/lane/NAME?after=NUMBER.
	Lane func(name lane.Name, after uint64) chain.LaneSeen
	// Ready are what has to be in order for /readyz.
	Ready []Check
	// Rev answers /rev.
	Rev func() Rev
}

// Check is one thing that has to be in order; nil from Ask says that it is.
type Check struct {
	Name string
	Ask  func() error
}

// RevSchema names the JSON form of Rev.
const RevSchema = "lane.rev/v1"

// Rev is the revision of the rules that a process applies.
type Rev struct {
	Schema string `json:"schema"`
	// Follows says that the process follows the rules in the registry: a sidecar may
	// not, and then has no revision either.
	Follows  bool      `json:"follows,omitempty"`
	Revision int       `json:"revision"`          // 0: none
	Since    time.Time `json:"since,omitzero"`    // by this process's clock
	Refused  int       `json:"refused,omitempty"` // an active revision that does not hold here
	Why      string    `json:"why,omitempty"`
	// Own says that the process has rules of its own, a file's, and does not follow
	// those in the registry: it has no revision of them.
	Own bool `json:"own,omitempty"`
}

// ReadySchema names the JSON form of Readiness.
const ReadySchema = "lane.ready/v1"

// Readiness is the answer of /readyz.
type Readiness struct {
	Schema string  `json:"schema"`
	Ready  bool    `json:"ready"`
	Checks []State `json:"checks"`
}

// State is how one check went.
type State struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Why  string `json:"why"`
}

// Server is the port.
type Server struct {
	o  Options
	ln net.Listener
}

// Listen opens the port; Run serves it.
func Listen(o Options) (*Server, error) {
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin port: %w", err)
	}
	if o.Hosts, err = hostNames(o.Hosts); err != nil {
		return nil, err
	}
	if host == "" {
		host = loopbackIP
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("admin port: %w", err)
	}
	return &Server{o: o, ln: ln}, nil
}

// Addr is where the port listens, host:port.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Exposed says whether other machines can reach the port.
func (s *Server) Exposed() bool {
	a, err := netip.ParseAddrPort(s.Addr())
	return err != nil || !a.Addr().Unmap().IsLoopback()
}

// Close ends a server that was never run.
func (s *Server) Close() error { return s.ln.Close() }

// Run answers until ctx ends, and lets the answers under way finish.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{Handler: s.handler(), ReadHeaderTimeout: headWait, ReadTimeout: readWait,
		WriteTimeout: writeWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHead}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(netutil.LimitListener(s.ln, maxConns)) }()
	select {
	case err := <-done:
		return errors.Join(fmt.Errorf("admin port: %w", err), srv.Close())
	case <-ctx.Done():
	}
	c, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	err := srv.Shutdown(c)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	_ = <-done // it was told to end
	return err
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		r := ready(s.o.Ready)
		code := http.StatusOK
		if !r.Ready {
			code = http.StatusServiceUnavailable
		}
		reply(w, code, r)
	})
	if s.o.Metrics != nil {
		mux.Handle("GET /metrics", s.o.Metrics)
	}
	if s.o.Stats != nil {
		mux.HandleFunc("GET /v1/stats", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.o.Stats()) })
	}
	if s.o.Trace != nil {
		mux.HandleFunc("GET /v1/trace/{id}", func(w http.ResponseWriter, r *http.Request) {
			h := s.o.Trace(r.PathValue("id"))
			h.Schema = chain.HopsSchema
			reply(w, http.StatusOK, h)
		})
	}
	if s.o.Lane != nil {
		mux.HandleFunc("GET /v1/lane/{name}", func(w http.ResponseWriter, r *http.Request) {
			name, err := lane.ParseName(r.PathValue("name"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			after, err := strconv.ParseUint(cmp.Or(r.FormValue("after"), "0"), 10, 64)
			if err != nil {
				http.Error(w, "after is no number of the record: it is 0, or the last of an answer", http.StatusBadRequest)
				return
			}
			reply(w, http.StatusOK, s.o.Lane(name, after))
		})
	}
	if s.o.Rev != nil {
		mux.HandleFunc("GET /rev", func(w http.ResponseWriter, _ *http.Request) {
			r := s.o.Rev()
			r.Schema = RevSchema
			reply(w, http.StatusOK, r)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case !s.own(r):
			http.Error(w, "this Host is not the admin port's: use localhost, its address, or a name that it was told of", http.StatusForbidden)
		case r.ContentLength != 0:
			w.Header().Set("Connection", "close") // nobody reads the body
			http.Error(w, "the admin port takes no body", http.StatusRequestEntityTooLarge)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func ready(checks []Check) Readiness {
	out := Readiness{Schema: ReadySchema, Ready: true, Checks: []State{}}
	for _, c := range checks {
		s := State{Name: c.Name, OK: true}
		if err := c.Ask(); err != nil {
			s.OK, s.Why, out.Ready = false, err.Error(), false
		}
		out.Checks = append(out.Checks, s)
	}
	return out
}

// HostError says that a name cannot be one of a Host header.
type HostError struct{ Host string }

func (e *HostError) Error() string {
	return fmt.Sprintf("%q is no name and no address of a host; say it without a port, and not for many at once", e.Host)
}

// hostNames brings names to the form in which requests are compared with them.
func hostNames(given []string) ([]string, error) {
	out := make([]string, 0, len(given))
	for _, g := range given {
		if err := CheckHost(g); err != nil {
			return nil, err
		}
		out = append(out, plain(g))
	}
	return out, nil
}

// CheckHost returns a *HostError for what cannot be a name in a Host header.
func CheckHost(host string) error {
	h := plain(host)
	if _, err := netip.ParseAddr(h); err != nil && (h == "" || strings.Trim(h, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "") {
		return &HostError{Host: host}
	}
	return nil
}

func plain(host string) string {
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// own keeps a web page in somebody's browser from reading the port under a name
// of its own that resolves to this machine.
func (s *Server) own(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host = plain(host); host == "localhost" || slices.Contains(s.o.Hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if ip.Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap() == ip.Unmap()
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the reader is gone: nobody is left to tell
}
