package proxy

import (
	"context"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Cases of h2spec that net/http's own server does not pass, and why that is no
// fault. The list is exact: a case that begins to pass is to be taken out of it.
var h2specFails = map[string]string{
	h2specPreface: "the port speaks HTTP/1 too, and says in it that this is none",
	"http2/4.2: Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE":                          "net/http allows frames of 1 MiB, and this one is smaller",
	"http2/6.5.3: Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE":                                            "net/http refuses a setting that is given twice",
	"http2/8.1.2.2: Sends a HEADERS frame that contains the connection-specific header field":                       "answered with 400, as RFC 9113, 8.1.1 allows",
	"http2/8.1.2.2: Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\"": "answered with 400, as RFC 9113, 8.1.1 allows",
}

const (
	h2specPreface = "http2/3.5: Sends invalid connection preface"
	h2specCases   = 146
)

func TestH2Spec(t *testing.T) {
	t.Parallel() // it waits for what must not come
	tool := h2specTool(t)
	// The body is read first: an answer could be faster than what h2spec sends wrong.
	answer := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			fmt.Fprint(w, "a body of some bytes")
		}
	}
	app := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	app.Config.Protocols = new(http.Protocols)
	app.Config.Protocols.SetHTTP1(true)
	app.Config.Protocols.SetUnencryptedHTTP2(true)
	app.Config.ErrorLog = log.New(io.Discard, "", 0)
	app.Start()
	t.Cleanup(app.Close)
	addr := strings.TrimPrefix(app.URL, "http://")
	s := &tlsShop{roots: x509.NewCertPool()}
	s.issuer = authority(t, s.roots, 0)
	s.env = newEnv(t, func(c *Config) { c.Log, c.Roots = traffic.NewLog(20000), s.roots })
	secured := securedBackend(t, "", s.issuer, "h2s", true, answer)
	s.reg.set(service("h2", instance("h2-alice", addr, "dev-alice"), instance("h2-base", addr, "")),
		service("h2s", instance("h2s-alice", secured.tlsAddr(), "dev-alice")))
	s.openFor(func(_, service string) bool { return service == "h2s" })
	guard := s.guard(GuardConfig{Lane: "dev-alice", Service: "h2", InstanceID: "h2-alice", Local: []string{addr}})
	overTLS := []string{"-t", "-k"}
	for _, way := range []struct {
		name, addr string
		front      traffic.Front
		instance   string // which the requests have come to
		more       []string
	}{
		{"net/http", addr, "", "", nil},
		{"guard", guard, traffic.FrontGuard, "h2-alice", nil},
		{"inside CONNECT", connectForwarder(t, s.addr, "h2:80"), traffic.FrontForward, "h2-alice", nil},
		{"net/http, TLS", secured.tlsAddr(), "", "", overTLS},
		{"opened TLS", connectForwarder(t, s.addr, "h2s:443"), traffic.FrontForward, "h2s-alice", overTLS},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			passed, failed := runH2Spec(t, tool, way.addr, way.more...)
			fails := maps.Clone(h2specFails)
			if way.more != nil {
				delete(fails, h2specPreface) // TLS has agreed on HTTP/2
			}
			for _, c := range slices.Sorted(maps.Keys(failed)) {
				if fails[c] == "" {
					t.Errorf("%s: %s", c, failed[c])
				}
			}
			for c := range fails {
				if _, ok := failed[c]; !ok {
					t.Errorf("%s: passes now", c)
				}
			}
			if want := h2specCases - len(fails); passed != want {
				t.Errorf("%d passed, want %d", passed, want)
			}
			if way.instance != "" && !s.passed(way.front, way.instance, 100) {
				t.Errorf("the requests did not come this way")
			}
		})
	}
}

// passed reports whether a front has passed so many requests of the lane to an
// instance.
func (e *env) passed(front traffic.Front, instance string, want int) bool {
	n := 0
	for seq := range e.log.Last() {
		if ex := e.exchange(seq + 1); ex.Front == front && ex.Instance == instance && ex.Kind == lane.KindLaneMatch {
			n++
		}
	}
	return n >= want
}

// h2specTool builds it, from its own module.
func h2specTool(t *testing.T) string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "h2spec")
	out, err := exec.CommandContext(t.Context(), "go", "-C", "../../scripts/h2spec", "build", "-o", tool, "github.com/summerwind/h2spec/cmd/h2spec").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return tool
}

type h2specReport struct {
	Suites []struct {
		Package string `xml:"package,attr"`
		Cases   []struct {
			Name    string  `xml:"classname,attr"`
			Failure *string `xml:"failure"`
			Error   *string `xml:"error"`
			Skipped *string `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// h2specParts are all cases, by how long h2spec waits for each answer, and to
// connect: long for what is to come, on a slow machine too, and less long for the
// three failures that are an answer which does not come, each waited for by a
// process of its own.
var h2specParts = []struct{ wait, parts string }{
	{"60", "generic hpack http2/3 http2/4.1 http2/4.2/1 http2/4.2/2 http2/4.3 http2/5 http2/6 http2/7 http2/8.1.2/1 " +
		"http2/8.1.2.1 http2/8.1.2.3 http2/8.1.2.6 http2/8.1/1 http2/8.2"},
	{"15", "http2/4.2/3"},
	{"15", "http2/8.1.2.2/1"},
	{"15", "http2/8.1.2.2/2"},
}

// runH2Spec runs all cases and says how many have passed, and what the others say.
func runH2Spec(t *testing.T, tool, addr string, more ...string) (passed int, failed map[string]string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	failed = map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	dir := t.TempDir()
	for i, p := range h2specParts {
		wg.Go(func() {
			r, err := h2spec(t.Context(), tool, filepath.Join(dir, strconv.Itoa(i)), append([]string{"-S", "-o", p.wait, "-h", host, "-p", port, "-P", "/?x-lane-tag=dev-alice"},
				slices.Concat(more, strings.Fields(p.parts))...))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%s: %v", p.parts, err)
				return
			}
			for _, s := range r.Suites {
				for _, c := range s.Cases {
					name := s.Package + ": " + c.Name
					switch {
					case c.Failure != nil:
						failed[name] = *c.Failure
					case c.Error != nil:
						failed[name] = *c.Error
					case c.Skipped != nil:
						failed[name] = "skipped"
					default:
						passed++
					}
				}
			}
		})
	}
	wg.Wait()
	return passed, failed
}

func h2spec(ctx context.Context, tool, report string, args []string) (r h2specReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, tool, append(args, "-j", report)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // which says that a case has failed
		return r, err
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return r, fmt.Errorf("%w: %s", err, out)
	}
	return r, xml.Unmarshal(text, &r)
}

// connectForwarder gives an address that leads through a proxy's tunnel, for a
// client that knows no proxy.
func connectForwarder(t *testing.T, proxy, target string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			caller, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer caller.Close()
				server, err := dialConnect(ctx, proxy, target)
				if err != nil {
					return
				}
				stop := context.AfterFunc(ctx, func() { caller.Close(); server.Close() })
				defer stop()
				join(caller.(*net.TCPConn), server.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { ln.Close(); cancel(); wg.Wait() })
	return ln.Addr().String()
}
