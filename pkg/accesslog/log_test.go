package accesslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is a line as a reader of the log takes it.
type entry struct {
	Schema   string    `json:"schema"`
	Time     time.Time `json:"time"`
	URL      string    `json:"url"`
	Tag      string    `json:"tag"`
	Status   int       `json:"status"`
	ReqBytes int64     `json:"req_bytes"`
	Took     float64   `json:"duration_ms"`
	Lost     uint64    `json:"lost"`
}

func lines(t *testing.T, text string) (out []entry) {
	t.Helper()
	for s := range strings.Lines(text) {
		var e entry
		if err := json.Unmarshal([]byte(s), &e); err != nil {
			t.Fatalf("%v in %q", err, s)
		}
		out = append(out, e)
	}
	return out
}

// run writes from a log until stop is called.
func run(t *testing.T, l *Log, from *traffic.Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx, from) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var fields = []string{"schema", "time", "front", "from", "method", "url", "proto", "status", "req_bytes", "res_bytes", "duration_ms",
	"service", "lane", "tag", "instance", "decision", "reason", "code", "error", "rule", "rule_rev", "trace_id", "client_trace_id"}

func TestLine(t *testing.T) {
	e := traffic.Exchange{Start: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)), Took: 1234567 * time.Nanosecond,
		Front: traffic.FrontGateway, From: "10.0.0.1:5", Method: "GET", URL: "http://orders/a?token=abc&x=1", Proto: "HTTP/1.1",
		Status: 503, ReqSize: 5, ResSize: 7, Service: "orders", Lane: "gray", Tag: "gray", Instance: "o-1", Kind: lane.KindError,
		Reason: lane.ReasonNoInstances, Code: lane.CodeNoInstances, Err: "broken", Rule: "user", RuleRev: "42", TraceID: "abc", ClientTraceID: "def"}
	got := string(appendLine(nil, &e))
	want := `{"schema":"lane.access/v1","time":"2026-01-02T02:04:05.000006Z","front":"gateway","from":"10.0.0.1:5","method":"GET",` +
		`"url":"http://orders/a?token=***&x=1","proto":"HTTP/1.1","status":503,"req_bytes":5,"res_bytes":7,"duration_ms":1.234,` +
		`"service":"orders","lane":"gray","tag":"gray","instance":"o-1","decision":"ERROR","reason":"service_has_no_instances",` +
		`"code":"E_NO_INSTANCES","error":"broken","rule":"user","rule_rev":"42","trace_id":"abc","client_trace_id":"def"}` + "\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	dec := json.NewDecoder(strings.NewReader(got))
	var keys []string
	for depth := 0; ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := tok.(json.Delim); ok {
			depth += map[json.Delim]int{'{': 1, '}': -1}[d]
			continue
		}
		if keys = append(keys, fmt.Sprint(tok)); depth != 1 {
			t.Fatal("nested")
		}
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(keys, fields) {
		t.Errorf("%v", keys)
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a", `"\`, "\x00\x1b[31m\x7f", "\u009b\u202e\u200b", "ä€😀", "\xff\xfe", "\U000e0001", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString(nil, s)
		var back string
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && back != want {
			t.Errorf("%q came back as %q", s, back)
		}
		if traffic.Printable(string(b)) != string(b) && !strings.ContainsRune(s, utf8.RuneError) {
			t.Errorf("%q reaches a terminal", b)
		}
	})
}

func TestEveryExchangeIsALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	from := traffic.NewLog(10000)
	from.Put(traffic.Exchange{Status: 1}) // before Run
	stop := run(t, l, from)
	const n = 3000
	for i := 2; i <= n; i++ {
		from.Put(traffic.Exchange{Status: i})
	}
	eventually(t, "the last line is there while nothing else comes", func() bool { return strings.Count(read(t, path), "\n") == n })
	from.Put(traffic.Exchange{Status: n + 1})
	stop()
	got := lines(t, read(t, path))
	if len(got) != n+1 || l.Lost() != 0 {
		t.Fatalf("%d lines, %d lost", len(got), l.Lost())
	}
	for i, e := range got {
		if e.Status != i+1 || e.Schema != Schema {
			t.Fatalf("line %d: %+v", i+1, e)
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// gate is a writer that waits until it is let go.
type gate struct {
	entered, open chan struct{}
	once          sync.Once
	mu            sync.Mutex
	b             bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.entered) })
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func TestSlowWriterHoldsNobodyUpAndSaysWhatIsMissing(t *testing.T) {
	g := &gate{entered: make(chan struct{}), open: make(chan struct{})}
	l, err := Open(Options{Out: g})
	if err != nil {
		t.Fatal(err)
	}
	const size, n = 100, 5000
	from := traffic.NewLog(size)
	stop := run(t, l, from)
	from.Put(traffic.Exchange{Status: 1})
	<-g.entered
	for i := 2; i <= n; i++ { // returns although nothing is written
		from.Put(traffic.Exchange{Status: i})
	}
	if l.Lost() != 0 {
		t.Error("lost before anybody has looked")
	}
	close(g.open)
	stop()
	var rows, lost int
	seen := 0
	for _, e := range lines(t, g.b.String()) {
		if e.Schema == LostSchema {
			lost += int(e.Lost)
			seen += int(e.Lost)
			continue
		}
		rows, seen = rows+1, seen+1
		if e.Status != seen {
			t.Fatalf("line of %d where %d is expected: the gap does not stand in its place", e.Status, seen)
		}
	}
	if rows+lost != n || rows != size+1 || l.Lost() != uint64(lost) {
		t.Errorf("%d lines and %d lost, Lost says %d", rows, lost, l.Lost())
	}
}

func TestReopenAfterTheFileWasMoved(t *testing.T) {
	dir := t.TempDir()
	path, old := filepath.Join(dir, "access.log"), filepath.Join(dir, "access.log.1")
	l, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	from := traffic.NewLog(100)
	stop := run(t, l, from)
	from.Put(traffic.Exchange{Status: 1})
	eventually(t, "the first line", func() bool { return strings.Contains(read(t, path), "\n") })
	if runtime.GOOS != "windows" { // where an open file cannot be moved
		if err := os.Rename(path, old); err != nil {
			t.Fatal(err)
		}
		from.Put(traffic.Exchange{Status: 2})
		eventually(t, "the old file until it is told", func() bool { return strings.Count(read(t, old), "\n") == 2 })
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != "" {
			t.Errorf("the new file begins with %q", got)
		}
		from.Put(traffic.Exchange{Status: 3})
		eventually(t, "the new file", func() bool { return strings.Count(read(t, path), "\n") == 1 })
	}
	stop()
	if l.Lost() != 0 {
		t.Errorf("%d lost", l.Lost())
	}
	if err := l.Reopen(); err == nil {
		t.Error("a log that has ended was opened again")
	}
}

// While requests go on, each of their lines is in one of the files, in order, and
// what began after a file was opened again is not in the one before.
func TestNoLineIsLostWhileFilesChange(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // where an open file cannot be moved
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	l, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	from := traffic.NewLog(1 << 16)
	stop := run(t, l, from)
	const files, lines = 10, 1000
	var begins [files]int // the first line that is not in the file before
	next := 1
	for i := range files {
		if i > 0 {
			if err := os.Rename(path, fmt.Sprint(path, ".", i-1)); err != nil {
				t.Fatal(err)
			}
			if err := l.Reopen(); err != nil {
				t.Fatal(err)
			}
		}
		begins[i] = next
		for range lines {
			from.Put(traffic.Exchange{ReqSize: int64(next)})
			next++
		}
	}
	stop()
	if err := os.Rename(path, fmt.Sprint(path, ".", files-1)); err != nil {
		t.Fatal(err)
	}
	want := 1
	for i := range files {
		for line := range strings.Lines(read(t, fmt.Sprint(path, ".", i))) {
			if !strings.Contains(line, fmt.Sprintf(`"req_bytes":%d,`, want)) {
				t.Fatalf("file %d: %s instead of line %d", i, line, want)
			}
			if i+1 < files && want >= begins[i+1] {
				t.Fatalf("line %d is in file %d, which was closed before it", want, i)
			}
			want++
		}
	}
	if want != next || l.Lost() != 0 {
		t.Errorf("%d of %d lines, %d lost", want-1, next-1, l.Lost())
	}
}

func TestReopenThatFailsKeepsTheOldFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Options{Path: filepath.Join(dir, "access.log")})
	if err != nil {
		t.Fatal(err)
	}
	l.o.Path = filepath.Join(dir, "gone", "access.log")
	if err := l.Reopen(); err == nil {
		t.Error("a file in no directory was opened")
	}
	from := traffic.NewLog(100)
	from.Put(traffic.Exchange{Status: 1})
	run(t, l, from)()
	if got := lines(t, read(t, filepath.Join(dir, "access.log"))); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// failing fails until it is mended.
type failing struct {
	mu     sync.Mutex
	mended bool
	fails  int
	b      bytes.Buffer
}

func (f *failing) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.mended {
		f.fails++
		return 0, errors.New("no space left on device")
	}
	return f.b.Write(p)
}

func TestFullDiskIsSaidOnceAndEndsNothing(t *testing.T) {
	f := &failing{}
	var said bytes.Buffer
	l, err := Open(Options{Out: f, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	from := traffic.NewLog(100)
	stop := run(t, l, from)
	for i := range uint64(3) {
		from.Put(traffic.Exchange{Status: 1})
		eventually(t, "it is counted", func() bool { return l.Lost() == i+1 })
	}
	f.mu.Lock()
	f.mended = true
	f.mu.Unlock()
	from.Put(traffic.Exchange{Status: 4})
	stop()
	if got := lines(t, f.b.String()); len(got) != 1 || got[0].Status != 4 {
		t.Errorf("%v", got)
	}
	if n := strings.Count(said.String(), "no space left"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &said)
	}
}

func TestOpenNeedsAPlace(t *testing.T) {
	if _, err := Open(Options{}); err == nil {
		t.Error("lines for nobody")
	}
	if _, err := Open(Options{Path: t.TempDir()}); err == nil {
		t.Error("a directory is no file")
	}
}

func BenchmarkLine(b *testing.B) {
	e := traffic.Exchange{Start: time.Now(), Took: time.Millisecond, Front: traffic.FrontGateway, Method: "GET", Proto: "HTTP/1.1",
		URL: "http://order-service/api/orders/42?x=1", Status: 200, Service: "order-service", Lane: "dev-alice", Tag: "dev-alice",
		Instance: "lane:dev-alice:order-service:abc", Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, TraceID: strings.Repeat("a", 32)}
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendLine(buf[:0], &e)
	}
}
