package traffic

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
)

// asked is a request as a server got it.
type asked struct {
	method, target string
	header         http.Header
	body           []byte
}

// shells are those into which lines are pasted: scripts/tools installs them.
var shells = []string{"sh", "dash", "bash", "fish"}

// TestCurlSendsTheSameRequest pastes lines into shells.
func TestCurlSendsTheSameRequest(t *testing.T) {
	got := make(chan asked, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- asked{r.Method, r.RequestURI, r.Header, b}
	}))
	srv.Config.DisableGeneralOptionsHandler = true // an OPTIONS * is ours too
	srv.Start()
	defer srv.Close()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, c := range []struct {
		name, method, path string
		header             string
		body               string
	}{
		{"plain", "GET", "/api/orders/42?a=1&b=2", "Accept: */*\r\nUser-Agent: x\r\n", ""},
		{"nothing that curl would add", "GET", "/", "X-A: 1\r\n", ""},
		{"brackets, braces and dots", "GET", "/a/../b/./c?x[]=1&y={1,2}&z=%2e%2E", "Accept: */*\r\n", ""},
		{"quotes", "POST", "/it's?q='%22$(date)`id`!!", "X-Quote: it's \"so\" $HOME \\ `id` !!\r\n", `{"it's":"\"$HOME\" !! \\ ` + "`id`" + `"}`},
		{"newlines and blanks", "POST", "/", "Content-Type: text/plain\r\n", "a\n\n  b\r\nc\t\n"},
		{"newlines alone", "PUT", "/", "Content-Type: text/plain\r\n", "\na\nb\n\n"},
		{"every byte", "POST", "/", "Content-Type: application/octet-stream\r\n", string(all)},
		{"zero at the end", "PATCH", "/", "", "a\x00"},
		{"looks like a file", "POST", "/", "Content-Type: x\r\n", "@/etc/passwd"},
		{"looks like a file of headers", "POST", "/", "X-At: @/etc/passwd\r\nContent-Type: x\r\n", "@-"},
		{"looks like a path to zsh", "POST", "/", "X-Is: =ls\r\nContent-Type: x\r\n", "=ls"},
		{"backslashes", "POST", "/a%5Cb", "X-B: \\ \\\\ \\' \\n a\\\r\nContent-Type: x\r\n", `\ \\ \' \n \x41 $HOME \`},
		{"backslashes and a byte", "POST", "/", "Content-Type: x\r\n", "\\ \\\\ \\' \\n \\\x01"},
		{"quotes in fields", "GET", "/", `X-A: "a" 'b' \"c\" \'d\'` + "\r\nX-B: '\r\nX-C: \"\r\n", ""},
		{"per cent", "POST", "/%25", "X: 100%s\r\n", "\x00%s%d%%"},
		{"characters", "POST", "/%C3%BC", "X-U: ü\r\n", "订单 👩‍👩‍👧"},
		{"no media type", "POST", "/", "Accept: */*\r\n", "a=1"},
		{"empty field", "GET", "/", "X-Empty:\r\nX-Two: 1\r\nX-Two: 2\r\n", ""},
		{"body of a GET", "GET", "/search", "Content-Type: application/json\r\n", `{"q":1}`},
		{"without a body", "DELETE", "/x", "", ""},
		{"head", "HEAD", "/x", "Accept: */*\r\n", ""},
		{"longer than curl sends at once", "POST", "/", "Content-Type: text/plain\r\n", strings.Repeat("0123456789abcde\n", 4000)},
		{"semicolons", "GET", "/a;b=c?d;e", "X-A: a;b\r\nX-B: ;\r\nX-C: a;\r\nX-D:\r\nX-D: ;a\r\n", ""},
		{"the whole server", "OPTIONS", "*", "Accept: */*\r\n", ""},
		{"options of a path", "OPTIONS", "/", "Origin: http://a.test\r\nAccess-Control-Request-Method: PUT\r\n", ""},
		{"what looks like a fragment", "GET", "/a?b#c#d", "", ""},
		{"expects", "POST", "/", "Expect: 100-continue\r\nContent-Type: x\r\n", strings.Repeat("a", 2000)},
		{"without a length", "POST", "/", "Transfer-Encoding: chunked\r\nContent-Type: x\r\n", "abc"},
		{"no body, and a type", "POST", "/", "Content-Type: x\r\n", ""},
		{"cookies", "GET", "/", "Cookie: a=\"1\"; b='2'; c=$HOME\r\nCookie: d=@/etc/passwd\r\n", ""},
		{"a method of one's own", "PURGE", "/x", "", ""},
		{"of the connection", "GET", "/", "Connection: close, X-Hop\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\nX-A: 1\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Exchange{Method: c.method, URL: srv.URL + c.path, ReqHeader: HeadText(c.header), ReqSize: int64(len(c.body))}
			if c.body != "" {
				e.ReqBody = &Body{Bytes: []byte(c.body)}
			}
			line, err := Curl(&e, CurlOptions{Secrets: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, shell := range shells {
				pasted(t, shell, line, c.method)
				select {
				case r := <-got:
					sameRequest(t, shell, &e, c.path, r)
				default:
					t.Fatalf("%s: nothing was sent by %s", shell, line)
				}
			}
		})
	}
}

// pasted runs a line in a shell. What curl says of a HEAD without an answer's body is
// no matter.
func pasted(t *testing.T, shell, line, method string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	home := t.TempDir() // fish writes there
	sh := exec.CommandContext(ctx, shell)
	sh.Stdin, sh.Env = strings.NewReader(line+"\n"), []string{"PATH=/usr/bin:/bin", "HOME=" + home, "no_proxy=*"}
	if out, err := sh.CombinedOutput(); err != nil && method != "HEAD" {
		t.Fatalf("%s: %v\n%s\n%s", shell, err, line, out)
	}
}

// sameRequest compares what was sent with what was recorded.
func sameRequest(t *testing.T, shell string, e *Exchange, target string, r asked) {
	t.Helper()
	if r.method != e.Method || r.target != target {
		t.Errorf("%s sent %s %s", shell, r.method, r.target)
	}
	var body []byte
	if e.ReqBody != nil {
		body = e.ReqBody.Bytes
	}
	if !bytes.Equal(r.body, body) {
		t.Errorf("%s sent the body %q", shell, r.body)
	}
	want := http.Header{}
	for _, f := range AskedFields(e) {
		want.Add(f.Name, f.Value)
	}
	r.header.Del("Content-Length")
	if !maps.EqualFunc(r.header, want, func(a, b []string) bool { return strings.Join(a, "|") == strings.Join(b, "|") }) {
		t.Errorf("%s sent the fields %q, want %q", shell, r.header, want)
	}
}

func TestCurlMasks(t *testing.T) {
	e := Exchange{Method: "POST", URL: "https://orders/x?token=hunter2", ReqHeader: HeadText("Authorization: Bearer hunter2\r\nCookie: a=hunter2\r\nContent-Type: application/json\r\n"),
		ReqSize: 22, ReqBody: &Body{Bytes: []byte(`{"password":"hunter2"}`)}}
	line, err := Curl(&e, CurlOptions{Proxy: "http://127.0.0.1:7474", CA: "/ca.pem"})
	if err != nil {
		t.Fatal(err)
	}
	want := `curl -g --path-as-is -x http://127.0.0.1:7474 --noproxy '' --cacert /ca.pem -X POST -H 'Authorization: Bearer ***' -H 'Cookie: a=***' ` +
		`-H 'Content-Type: application/json' -H User-Agent: -H Accept: -H Expect: --data-raw '{"password":"***"}' 'https://orders/x?token=***'`
	if line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	if line, _ = Curl(&e, CurlOptions{Secrets: true}); strings.Count(line, "hunter2") != 4 {
		t.Errorf("its secrets were asked for: %s", line)
	}
}

// What came to a guard goes to its service, with what it said of a lane.
func TestCurlOfAGuard(t *testing.T) {
	for _, c := range []struct{ tag, head, want string }{
		{"", "", "-H 'x-lane-tag: baseline' -H User-Agent: -H Accept: 'http://orders/a?b'"},
		{"dev-alice", "X-Lane-Tag: dev-alice\r\nx-lane-hops: 1\r\n", "-H 'X-Lane-Tag: dev-alice' -H User-Agent: -H Accept: 'http://orders/a?b'"},
	} {
		e := Exchange{Front: FrontGuard, Method: "GET", URL: "http://10.2.0.77:40117/a?b", Service: "orders", Tag: c.tag, ReqHeader: HeadText(c.head)}
		if line, err := Curl(&e, CurlOptions{}); err != nil || line != "curl -g --path-as-is "+c.want {
			t.Errorf("%q, %v", line, err)
		}
	}
}

// By a proxy the target is the whole URL, where curl would write it otherwise too.
func TestCurlTargets(t *testing.T) {
	for _, c := range []struct{ method, url, want string }{
		{"OPTIONS", "http://orders", "-X OPTIONS -H User-Agent: -H Accept: --request-target http://orders http://orders"},
		{"OPTIONS", "http://orders*", "-X OPTIONS -H User-Agent: -H Accept: --request-target http://orders http://orders"},
		{"OPTIONS", "https://orders", "-X OPTIONS -H User-Agent: -H Accept: --request-target '*' https://orders"},
		{"OPTIONS", "http://orders/", "-X OPTIONS -H User-Agent: -H Accept: http://orders/"},
		{"GET", "http://orders/a?token=x#y", "-H User-Agent: -H Accept: --request-target 'http://orders/a?token=***#y' 'http://orders/a?token=***#y'"},
		{"GET", "http://orders", "-H User-Agent: -H Accept: http://orders"},
	} {
		e := Exchange{Method: c.method, URL: c.url}
		if line, err := Curl(&e, CurlOptions{Proxy: "http://p"}); err != nil || line != "curl -g --path-as-is -x http://p --noproxy '' "+c.want {
			t.Errorf("%q, %v", line, err)
		}
	}
	for _, c := range [][3]string{{"OPTIONS", "http://h", "*"}, {"GET", "http://h", "/"}, {"GET", "http://h?a", "/?a"}, {"GET", "http://h/a b", "/a%20b"}, {"OPTIONS", "http://h?a", "/?a"}, {"GET", "http://h/a|b//c?d|e#f", "/a|b//c?d|e#f"}} {
		if got := TargetOf(c[0], c[1]); got != c[2] {
			t.Errorf("%s %s asks for %q", c[0], c[1], got)
		}
	}
	e := Exchange{Front: FrontGuard, Method: "OPTIONS", URL: "http://10.2.0.77:40117*", Service: "orders"}
	if got := AskedURL(&e); got != "http://orders" {
		t.Errorf("a guard's: %s", got)
	}
	if got := PathOf(&e); got != "*" {
		t.Errorf("its path: %s", got)
	}
}

func TestNotRepeatable(t *testing.T) {
	ok := Exchange{Method: "GET", URL: "http://a/b"}
	if err := Repeatable(&ok); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Exchange){
		"tunnel":       func(e *Exchange) { e.Method = "CONNECT" },
		"another prot": func(e *Exchange) { e.Proto = "ws" },
		"gRPC":         func(e *Exchange) { e.ReqHeader = HeadText("content-type: application/grpc+proto\r\n") },
		"not known":    func(e *Exchange) { e.URL = "a:443" },
		"URL was too":  func(e *Exchange) { e.URL += "…" },
		"head was too": func(e *Exchange) { e.ReqHeader = HeadText("X: " + strings.Repeat("x", 5000) + "\r\n") },
		"not kept":     func(e *Exchange) { e.ReqSize = 3 },
		"body was too": func(e *Exchange) { e.ReqSize, e.ReqBody = 3, &Body{Bytes: []byte("ab"), Cut: true} },
	} {
		e := ok
		change(&e)
		if err := Repeatable(&e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	long := HeadOf(http.Header{"X": {strings.Repeat("x", 2000)}})
	if !long.Cut() || HeadOf(http.Header{"X": {"x"}}).Cut() {
		t.Error("a long value is said to be whole, or a short one is not")
	}
}

func TestEndsWhen(t *testing.T) {
	e := Exchange{Service: "users", Lane: "dev-alice", Kind: lane.KindFallback, Reason: lane.ReasonLaneAbsent}
	what, run := EndsWhen(&e)
	if what != "when an instance of users registers in lane dev-alice" || run != "lane up dev-alice -s users=PORT" {
		t.Errorf("%q, %q", what, run)
	}
	e.Kind, e.Reason = lane.KindKillSwitch, lane.ReasonKillSwitch
	if _, run := EndsWhen(&e); run != "lane unkill dev-alice" {
		t.Errorf("of a kill switch: %q", run)
	}
	e.Kind, e.Reason, e.Service = lane.KindFallback, "a_new_one", "us\x1bers"
	if what, _ := EndsWhen(&e); what != `when the router finds us\x1bers in lane dev-alice` {
		t.Errorf("of a reason that is not known: %q", what)
	}
	// Each fallback ends by something, and nothing else does.
	for _, r := range []lane.Reason{lane.ReasonLaneAbsent, lane.ReasonLaneDrained, lane.ReasonLaneUnknown, lane.ReasonLaneFilteredHard, lane.ReasonLaneUnhealthy,
		lane.ReasonLaneDeclaredAbsent, lane.ReasonProportional, lane.ReasonTagInvalidDropped, lane.ReasonRegistryStale} {
		e.Reason = r
		if what, _ := EndsWhen(&e); what == "" {
			t.Errorf("%s: nothing ends it", r)
		}
	}
	for _, k := range []lane.Kind{lane.KindBaseline, lane.KindLaneMatch, lane.KindExternal, lane.KindError} {
		e.Kind = k
		if what, run := EndsWhen(&e); what+run != "" {
			t.Errorf("%s ends: %q %q", k, what, run)
		}
	}
}
