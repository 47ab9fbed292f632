//go:build unix

package har

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// chromium is a headless Chromium of the test's own, which is asked by its debugging
// protocol.
type chromium struct {
	conn *websocket.Conn
	id   int
	page string // the session of the page that is asked
}

// startChromium starts it, on a page of its own developer tools.
func startChromium(ctx context.Context, t *testing.T) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium: scripts/tools installs it")
	}
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--no-proxy-server", "--remote-debugging-port=0", "--user-data-dir="+profile, "about:blank")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + profile}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its renderers too
		_ = cmd.Wait()
		_ = os.RemoveAll(profile)
	})
	defer time.AfterFunc(time.Minute, func() { _ = said.Close() }).Stop() // it has not said where
	lines := bufio.NewScanner(said)
	var all, url string
	for url == "" && lines.Scan() {
		all += lines.Text() + "\n"
		_, url, _ = strings.Cut(lines.Text(), "DevTools listening on ")
	}
	if url == "" {
		t.Fatalf("chromium does not say where it is asked:\n%s", all)
	}
	conn, resp, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	conn.SetReadLimit(16 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	c := &chromium{conn: conn}
	var target struct{ TargetID string }
	var session struct{ SessionID string }
	c.must(ctx, t, "Target.createTarget", map[string]any{"url": "devtools://devtools/bundled/devtools_app.html"}, &target)
	c.must(ctx, t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	c.page = session.SessionID
	return c
}

func (c *chromium) must(ctx context.Context, t *testing.T, method string, params, into any) {
	t.Helper()
	if err := c.call(ctx, method, params, into); err != nil {
		t.Fatal(err)
	}
}

// call asks and waits for the answer; what comes meanwhile is news of no interest.
func (c *chromium) call(ctx context.Context, method string, params, into any) error {
	c.id++
	ask := map[string]any{"id": c.id, "method": method, "params": params}
	if c.page != "" {
		ask["sessionId"] = c.page
	}
	if err := wsjson.Write(ctx, c.conn, ask); err != nil {
		return err
	}
	for {
		var got struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := wsjson.Read(ctx, c.conn, &got); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case got.ID != c.id:
		case got.Error != nil:
			return fmt.Errorf("%s: %s", method, got.Error.Message)
		default:
			return json.Unmarshal(got.Result, into)
		}
	}
}

// eval is the value of an expression on the page.
func (c *chromium) eval(ctx context.Context, expression string, into any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := c.call(ctx, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &got)
	if err != nil {
		return err
	}
	if d := got.ExceptionDetails; d != nil {
		return errors.New(d.Text + " " + d.Exception.Description)
	}
	return json.Unmarshal(got.Result.Value, into)
}

// imported is a request as the developer tools have it.
type imported struct {
	Method, URL, Address, Type, Mime, Protocol, Post, Text, Base64 string
	Status                                                         int
	RequestHeaders, ResponseHeaders                                []string
	RequestCookies, ResponseCookies, Query                         []string
	Took                                                           float64
	Size, Transferred                                              int64
}

// browsed are exchanges of the kinds that a browser shows each in its way.
func browsed(t *testing.T) []traffic.Exchange {
	t.Helper()
	at := time.Date(2026, 3, 2, 14, 2, 15, 0, time.UTC)
	all := append(rows()[:2], packedRows(t)...)
	return append(all,
		traffic.Exchange{Start: at, Took: time.Millisecond, Method: "GET", URL: "http://orders/events", Proto: "ws", Status: 101, Addr: "10.2.0.77:8080", Kind: lane.KindLaneMatch,
			ResHeader: traffic.HeadText("Upgrade: websocket\r\nConnection: Upgrade\r\n")},
		traffic.Exchange{Start: at, Took: 3 * time.Second, Method: "GET", URL: "http://orders/aborted", Proto: "HTTP/1.1", Err: "context canceled"},
		traffic.Exchange{Start: at, Took: 12 * time.Millisecond, First: 11 * time.Millisecond, Method: "POST", URL: "http://users/users.v1.Users/Get", Proto: "HTTP/2.0", Status: 200,
			ReqHeader: traffic.HeadText("content-type: application/grpc\r\n"), ResHeader: traffic.HeadText("content-type: application/grpc\r\n"),
			ReqBody: &traffic.Body{Bytes: []byte("\x00\x00\x00\x00\x02\x08\x01")}, ReqSize: 7, ResBody: &traffic.Body{Bytes: []byte("\x00\x00\x00\x00\x00")}, ResSize: 5},
		traffic.Exchange{Start: at, Took: time.Millisecond, Method: "HEAD", URL: "http://orders/x", Proto: "HTTP/1.1", Status: 304, ResHeader: traffic.HeadText("ETag: \"1\"\r\n")},
	)
}

// TestOpensInChromium: an archive is dropped into the Network panel.
func TestOpensInChromium(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := startChromium(ctx, t)
	js, err := os.ReadFile(filepath.Join("testdata", "opens.js"))
	if err != nil {
		t.Fatal(err)
	}
	har, err := Encode(browsed(t), Options{Version: "1.0"})
	if err != nil {
		t.Fatal(err)
	}
	open := func(text string, into any) error {
		arg, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return c.eval(ctx, strings.TrimSpace(string(js))+"("+string(arg)+")", into)
	}
	var got struct {
		Rows     []string
		Requests []imported
	}
	for { // until the page is there
		var ready string
		if err := c.eval(ctx, "document.readyState + location.protocol", &ready); err == nil && ready == "completedevtools:" {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	if err := open(string(har), &got); err != nil {
		t.Fatal(err)
	}
	shown := strings.Join(got.Rows, "\n")
	for _, want := range []string{"api?a=1&token=***&e=%zz&f 302 png", "api.partner.test 200", "events 101 websocket", "orders 200 fetch", "Get 200 fetch", "x 304", "aborted "} {
		if !strings.Contains(shown, want) {
			t.Errorf("the panel does not show %q; it shows\n%s", want, shown)
		}
	}
	by, clear := map[string]imported{}, 0
	for _, r := range got.Requests {
		by[r.URL] = r
		if r.Text == `{"password":"***","a":"`+long+`"}` && r.Size > r.Transferred {
			clear++
		}
	}
	if clear != 1 {
		t.Errorf("%d answers that were compressed stand there in clear", clear)
	}
	if len(got.Requests) != len(browsed(t)) {
		t.Errorf("%d requests", len(got.Requests))
	}
	post, ws, rpc, gone := by["http://orders/api?a=1&token=***&e=%zz&f"], by["http://orders/events"], by["http://users/users.v1.Users/Get"], by["http://orders/aborted"]
	for what, pair := range map[string][2]any{
		"request":          {fmt.Sprint(post.Method, post.Status, post.Address, post.Mime, post.Protocol, post.Took), fmt.Sprint("POST", 302, "10.2.0.77:8080", "image/png", "http/1.1", 42.0)},
		"post data":        {post.Post, `{"password":"***"}`},
		"query":            {strings.Join(post.Query, " "), "a=1 token=*** e=%zz f="},
		"request cookies":  {strings.Join(post.RequestCookies, "|"), "a=***"},
		"response cookies": {strings.Join(post.ResponseCookies, "|"), "s=*** / false false"},
		"headers":          {fmt.Sprint(len(post.RequestHeaders), len(post.ResponseHeaders)), "3 3"},
		"content":          {post.Base64, "AAH/"},
		"sizes":            {fmt.Sprint(post.Size, post.Transferred), "4 4"},
		"an IPv6 address":  {by["https://api.partner.test:443/"].Address, "2001:db8::1:443"},
		"a WebSocket":      {fmt.Sprint(ws.Status, " ", ws.Type), "101 websocket"},
		"gRPC":             {fmt.Sprint(rpc.Status, rpc.Protocol, rpc.Mime, rpc.Base64), "200h2application/grpcAAAAAAA="},
		"no answer":        {fmt.Sprint(gone.Status, gone.Took, gone.Transferred), "0 3000 0"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	// The twin: what is no HAR is not opened.
	if err := open(`{"log":{}}`, &got); err == nil {
		t.Error("an archive without entries was opened")
	}
}
