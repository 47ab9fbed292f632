package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui"
)

// anyOf is one of some.
func anyOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomExchange is one of any kind, whose URL has its number: n7x.
func randomExchange(r *rand.Rand, n int) traffic.Exchange {
	service := anyOf(r, "orders", "payments", "Inventory", "")
	host := service
	if host == "" {
		host = anyOf(r, "api.partner.test:8443", "cdn.test")
	}
	e := traffic.Exchange{Start: time.Date(2026, 3, 2, 14, 2, 15, n*1e6, time.UTC), Took: time.Duration(r.IntN(3_000_000)) * time.Microsecond,
		Front: anyOf(r, traffic.FrontForward, traffic.FrontGuard), From: anyOf(r, "127.0.0.1:50001", "[::1]:50002", "10.2.0.9:1", "10.3.0.9:1", ""),
		Method: anyOf(r, "GET", "POST", "get", "DELETE"), Proto: "HTTP/1.1",
		URL:     "http://" + host + "/" + anyOf(r, "api", "API", "v1/a:b", "healthz") + fmt.Sprintf("/n%dx", n) + anyOf(r, "", "?token=hunter2", "?q=a%20b&x=ü", `?"quoted"`),
		Service: service, Lane: anyOf[lane.Name](r, "dev-alice", ""), Tag: anyOf(r, "", "dev-bob", "dev-alice"),
		Kind:   anyOf(r, lane.KindBaseline, lane.KindLaneMatch, lane.KindFallback, lane.KindDegraded, lane.KindKillSwitch, lane.KindExternal, lane.KindError),
		Reason: lane.ReasonLaneAbsent, Status: anyOf(r, 0, 101, 200, 204, 302, 404, 500, 503, 599), TraceID: anyOf(r, "", "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c")}
	e.ReqHeader, e.ResHeader = traffic.HeadText("A: b\r\n"), traffic.HeadText("A: b\r\n") // else they are fetched for an export, one by one
	if e.Front == traffic.FrontGuard {
		e.Guard = anyOf(r, traffic.GuardPassed, traffic.GuardBounced, traffic.GuardRejected, traffic.GuardProbe)
	}
	if e.Kind == lane.KindError || r.IntN(9) == 0 {
		e.Code = lane.CodeUpstreamConnect
	}
	if e.Status == 0 {
		e.Err = "EOF"
	}
	if r.IntN(9) == 0 {
		e.Method, e.Proto, e.URL = "CONNECT", "CONNECT", fmt.Sprintf("n%dx.test:443", n)
	}
	return e
}

// randomFilter is a filter of the language that docs/filters.md has.
func randomFilter(r *rand.Rand) string {
	values := map[string][]string{
		"svc":   {"orders", "ORD", "*ment*", "cdn.test", "inv*", "8443"},
		"m":     {"GET", "post", "CONNECT"},
		"path":  {"/api", "*x", "/v1/a:b", "token", "hunter2", "***", "ü", `"a b"`, "n1*"},
		"st":    {"5xx", "404", ">=500", "none", "<300", "200"},
		"ms":    {">200", "<5", "<=1500", "42"},
		"route": {"lane", "base", "fb", "guard", "ext", "err", "killed"},
		"from":  {"me", "local", "10.2", "10.*"},
		"lane":  {"dev-alice", "none", "dev-*", "bob"},
		"trace": {"4bf9", "0AF7"},
		"":      {"healthz", "n2", "api", `"?q"`, "v1/a:b"},
	}
	keys := []string{"svc", "m", "path", "st", "ms", "route", "from", "lane", "trace", ""}
	var terms []string
	for range 1 + r.IntN(3) {
		key := anyOf(r, keys...)
		some := []string{anyOf(r, values[key]...)}
		if r.IntN(3) == 0 {
			some = append(some, anyOf(r, values[key]...))
		}
		term := strings.Join(some, "|")
		if key != "" {
			term = key + ":" + term
		}
		terms = append(terms, anyOf(r, "", "", "-")+term)
	}
	return strings.Join(terms, " ")
}

// loggedSession is a session whose exchanges are those of the log.
type loggedSession struct{ fixedSession }

// saving is somebody who only keeps what is exported.
type saving struct {
	*deeds
	files chan []byte
}

func (s saving) Save(name string, content []byte) (string, error) {
	s.files <- content
	return "./" + name, nil
}

// seeing is a session that says when the screen has got the rows that there were: it
// asks for more of them then.
type seeing struct {
	remote
	once sync.Once
	seen chan struct{}
}

func (s *seeing) Batch(ctx context.Context, after uint64, most int) (traffic.Batch, error) {
	if after > 0 {
		s.once.Do(func() { close(s.seen) })
	}
	return s.remote.Batch(ctx, after, most)
}

var numbered = regexp.MustCompile(`n(\d+)x`)

// TestTheScreenShowsWhatTailPrints: for any filter, the rows on the screen of lane status
// are those that lane tail --json prints. It is used by its keys, and exports what it shows.
func TestTheScreenShowsWhatTailPrints(t *testing.T) {
	const rows, filters = 300, 150
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dir, err := os.MkdirTemp("", "lane") // a socket's path is short by nature
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	log := traffic.NewLog(rows)
	for n := range rows {
		log.Put(randomExchange(r, n))
	}
	srv, err := control.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	served := make(chan error, 1)
	st := control.Status{Schema: control.StatusSchema, Lane: "dev-alice", PID: os.Getpid(), State: control.SessionUp, Started: time.Now()}
	go func() { served <- srv.Serve(ctx, loggedSession{fixedSession{st}}, log) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	out := &bytes.Buffer{}
	f := &factory{io: &iostreams.IOStreams{Out: out, Err: out}, getenv: func(k string) string { return map[string]string{"LANE_RUNTIME_DIR": dir}[k] }, now: time.Now, dir: dir}
	found, err := f.session(ctx, "")
	if err != nil {
		t.Fatal(err)
	}

	keys, typed := io.Pipe()
	files := make(chan []byte, 1)
	ended := make(chan error, 1)
	seen := make(chan struct{})
	src := &seeing{remote: remote{found.Client}, seen: seen}
	go func() {
		ended <- tui.Run(ctx, src, tui.Options{In: keys, Out: io.Discard, Attached: true, Deeds: saving{&deeds{src, f}, files}})
		_ = keys.Close()
	}()
	press := func(all ...string) {
		t.Helper()
		for _, k := range all { // each by itself: what comes at once is a text that was pasted
			if _, err := io.WriteString(typed, k); err != nil {
				t.Fatal(errors.Join(err, <-ended))
			}
		}
	}
	exported := func() []string {
		t.Helper()
		select {
		case har := <-files:
			var got []string
			var doc struct {
				Log struct {
					Entries []struct{ Request struct{ URL string } }
				}
			}
			if err := json.Unmarshal(har, &doc); err != nil {
				t.Fatal(err)
			}
			for _, e := range doc.Log.Entries {
				got = append(got, numbered.FindString(e.Request.URL))
			}
			slices.Sort(got)
			return got
		case <-ctx.Done():
			t.Fatal("nothing was exported")
		}
		return nil
	}
	tailed := func(filter string) []string {
		t.Helper()
		out.Reset()
		if code := f.run(ctx, []string{"tail", "--json", "--follow=false", "-n", "1000000", "--filter", filter}); code != 0 {
			t.Fatalf("tail --filter %q: %d %s", filter, code, out)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, numbered.FindString(line))
		}
		slices.Sort(got)
		return got
	}

	all := tailed("")
	if len(all) != rows {
		t.Fatalf("tail prints %d rows", len(all))
	}
	select {
	case <-seen:
	case <-ctx.Done():
		t.Fatal("the screen has no rows")
	}
	some := 0
	for range filters {
		filter := randomFilter(r)
		want := tailed(filter)
		if n := len(want); n > 0 && n < rows {
			some++
		}
		press("/", "\x15", filter, "\r", "e")
		if len(want) == 0 { // then there is nothing to export, and next comes the twin
			press("/", "\x15", "\r", "e")
			want = all
		}
		if got := exported(); !slices.Equal(got, want) {
			t.Fatalf("%q: the screen shows %d rows, tail %d\n%v\n%v", filter, len(got), len(want), got, want)
		}
	}
	if some < filters/4 {
		t.Errorf("only %d of %d filters choose some rows", some, filters)
	}
	press("q")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
