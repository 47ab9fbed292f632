//go:build unix

package cmd

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// app NAME PROXY NEXT [HEADER...] lets a server's requests call NEXT, through the
// proxy at PROXY ("" none), and pass on these headers alone, or set those with a
// value (HEADER=VALUE): an application that knows no lanes. Its answer is its name,
// and what NEXT answered.
func cmdApp(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 3, "app NAME PROXY NEXT [HEADER...]")
	tr := &http.Transport{DisableKeepAlives: true}
	if args[1] != "" {
		tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: args[1]})
	}
	next, forward := "http://"+args[2]+"/", args[3:]
	s := worldOf(ts).server(ts, args[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.app = func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, next, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for _, name := range forward {
			if name, value, set := strings.Cut(name, "="); set {
				req.Header.Set(name, value)
			} else if v := r.Header.Values(name); len(v) > 0 {
				req.Header[http.CanonicalHeaderKey(name)] = v
			}
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		fmt.Fprintf(w, "%s(%s) -> ", s.name, r.Header.Get("x-lane-tag"))
		_, _ = io.Copy(w, resp.Body) // a broken answer is seen in what is missing
	}
}

// freeport VAR... takes ports that nobody listens on.
func cmdFreePort(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "freeport VAR...")
	for _, name := range args {
		s := &server{}
		ts.Check(s.listen())
		s.close()
		ts.Setenv(name, strconv.Itoa(s.port))
	}
}

// registerport SERVICE ID PORT registers an address of this machine as somebody
// else's healthy instance of a service.
func cmdRegisterPort(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 3, "registerport SERVICE ID PORT")
	port, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(worldOf(ts).call("PUT", "/v1/agent/service/register", map[string]any{
		"ID": args[1], "Name": args[0], "Address": "127.0.0.1", "Port": port}, nil))
}

// listening ADDRESS... waits until somebody listens there.
func cmdListening(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "listening ADDRESS...")
	ctx, cancel := storyContext()
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, addr := range args {
		for {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				conn.Close()
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				ts.Fatalf("nobody listens at %s: %v", addr, err)
			}
		}
	}
}
