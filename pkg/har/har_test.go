package har

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// rows are exchanges of every kind, and some that are hardly any.
func rows() []traffic.Exchange {
	at := time.Date(2026, 3, 2, 14, 2, 15, 123456789, time.FixedZone("", 3600))
	return []traffic.Exchange{
		{Seq: 1, Start: at, Took: 42 * time.Millisecond, First: 40 * time.Millisecond, Method: "POST", URL: "http://orders/api?a=1&token=hunter2&e=%zz&f", Proto: "HTTP/1.1",
			Service: "orders", Lane: "dev-alice", Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Addr: "10.2.0.77:8080", Status: 302, ReqSize: 22, ResSize: 4,
			ReqHeader: traffic.HeadOf(http.Header{"Cookie": {"a=hunter2"}, "Content-Type": {"application/json"}, "Authorization": {"Basic hunter2"}}),
			ResHeader: traffic.HeadOf(http.Header{"Location": {"/x?sig=hunter2"}, "Set-Cookie": {"s=hunter2; Path=/"}, "Content-Type": {"image/png"}}),
			ReqBody:   &traffic.Body{Bytes: []byte(`{"password":"hunter2"}`)}, ResBody: &traffic.Body{Bytes: []byte{0, 1, 0xff}, Cut: true}},
		{Seq: 2, Start: at, Method: "CONNECT", URL: "api.partner.test:443", Proto: "CONNECT", Kind: lane.KindExternal, Addr: "[2001:db8::1]:443", Status: 200},
		{Seq: 3, Start: at, Method: "GET", URL: "http://a/\x1b[2J\xff?\xfe=\x00", Err: "EOF", Addr: "orders:80", ReqBody: &traffic.Body{}, ResBody: &traffic.Body{Bytes: []byte("caf\xc3"), Cut: true}},
		{},
	}
}

// required are the fields of HAR 1.2 that are not optional, with their kinds, by
// the object that has them
// (http://www.softwareishard.com/blog/har-12-spec/).
var required = map[string]map[string]string{
	"log":         {"version": "string", "creator": "object", "entries": "array"},
	"creator":     {"name": "string", "version": "string"},
	"entry":       {"startedDateTime": "date", "time": "number", "request": "object", "response": "object", "cache": "object", "timings": "object"},
	"request":     {"method": "string", "url": "string", "httpVersion": "string", "cookies": "array", "headers": "array", "queryString": "array", "headersSize": "number", "bodySize": "number"},
	"response":    {"status": "number", "statusText": "string", "httpVersion": "string", "cookies": "array", "headers": "array", "content": "object", "redirectURL": "string", "headersSize": "number", "bodySize": "number"},
	"headers":     {"name": "string", "value": "string"},
	"queryString": {"name": "string", "value": "string"},
	"cookies":     {"name": "string", "value": "string"},
	"postData":    {"mimeType": "string", "params": "array", "text": "string"},
	"content":     {"size": "number", "mimeType": "string"},
	"timings":     {"send": "number", "wait": "number", "receive": "number"},
}

// optional are those that may be there.
var optional = map[string]string{"log": "browser pages comment", "entry": "pageref serverIPAddress connection comment",
	"request": "postData comment", "response": "comment", "headers": "comment", "queryString": "comment", "cookies": "path domain expires httpOnly secure comment", "postData": "comment",
	"content": "compression text encoding comment", "timings": "blocked dns connect ssl comment", "creator": "comment"}

func valid(t *testing.T, what string, o map[string]any) {
	t.Helper()
	for name, kind := range required[what] {
		v, ok := o[name]
		good := ok
		switch kind {
		case "string":
			_, good = v.(string)
		case "number":
			_, good = v.(float64)
		case "array":
			_, good = v.([]any)
		case "object":
			_, good = v.(map[string]any)
		case "date":
			_, err := time.Parse(time.RFC3339, fmt.Sprint(v))
			good = err == nil
		}
		if !good {
			t.Errorf("%s.%s is %v, want a %s", what, name, v, kind)
		}
	}
	for name, v := range o {
		if _, must := required[what][name]; !must && !strings.HasPrefix(name, "_") && !strings.Contains(" "+optional[what]+" ", " "+name+" ") {
			t.Errorf("%s.%s is no field of HAR", what, name)
		}
		switch inner := v.(type) {
		case map[string]any:
			if required[name] != nil {
				valid(t, name, inner)
			}
		case []any:
			for _, x := range inner {
				if item, ok := x.(map[string]any); ok {
					kind := name
					if name == "entries" {
						kind = "entry"
					}
					valid(t, kind, item)
				}
			}
		}
	}
}

func TestIsHAR(t *testing.T) {
	b, err := Encode(rows(), Options{Version: "1.0", Comment: "lane dev-alice\x1b", Marked: map[uint64]bool{2: true}})
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	top, ok := doc["log"].(map[string]any)
	if !ok || len(doc) != 1 {
		t.Fatalf("the document is %.200s", b)
	}
	valid(t, "log", top)
	if n := len(top["entries"].([]any)); n != 4 {
		t.Errorf("%d entries", n)
	}
	if path := os.Getenv("LANE_TEST_HAR"); path != "" { // for another validator
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The twin: what lacks a field is found.
	found := &testing.T{}
	delete(top["entries"].([]any)[0].(map[string]any)["request"].(map[string]any), "cookies")
	valid(found, "log", top)
	if !found.Failed() {
		t.Error("an entry without cookies is taken for HAR")
	}
}

func TestWhatIsInIt(t *testing.T) {
	b, err := Encode(rows(), Options{Marked: map[uint64]bool{2: true}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "hunter2") || strings.Contains(string(b), base64.StdEncoding.EncodeToString([]byte("hunter2"))) {
		t.Errorf("a secret is in it:\n%s", b)
	}
	for _, c := range b {
		if c < 0x20 && c != '\n' || c >= 0x7f {
			t.Fatalf("the byte %#x is in it", c)
		}
	}
	var a archive
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	e := a.Log.Entries
	for what, pair := range map[string][2]any{
		"start":             {e[0].Started, "2026-03-02T14:02:15.123+01:00"},
		"time":              {e[0].Time, 42.0},
		"timings":           {e[0].Timings, timings{-1, -1, 0, 40, 2}},
		"url":               {e[0].Request.URL, "http://orders/api?a=1&token=***&e=%zz&f"},
		"query":             {fmt.Sprint(e[0].Request.QueryString), "[{a 1} {token ***} {e %zz} {f }]"},
		"body":              {e[0].Request.PostData.Text, `{"password":"***"}`},
		"answer":            {fmt.Sprint(e[0].Response.Content), "{4 image/png 0 AAH/ base64 cut: only the first bytes were kept}"},
		"redirect":          {e[0].Response.RedirectURL, "/x?sig=***"},
		"address":           {e[0].ServerIP + " " + e[0].Conn, "10.2.0.77 8080"},
		"cookies":           {fmt.Sprint(e[0].Request.Cookies, e[0].Response.Cookies), "[{a ***    false false}] [{s *** /   false false}]"},
		"route":             {e[0].Route, "LANE"},
		"comment":           {e[0].Comment, "LANE: orders runs in lane dev-alice"},
		"tunnel":            {e[1].Request.URL, "https://api.partner.test:443/"},
		"ipv6":              {e[1].ServerIP, "2001:db8::1"},
		"marked":            {e[1].Marked, true},
		"unmarked":          {e[0].Marked, false},
		"no URL":            {e[2].Request.URL, "http://a/%1B[2J%FF?%FE=%00"},
		"refused":           {newRequest(&traffic.Exchange{Method: "GET", URL: "/a%zz?token=hunter2", Service: "orders"}).URL, "http://orders/a%zz?token=***"},
		"refused by nobody": {newRequest(&traffic.Exchange{Method: "GET", URL: "no url"}).URL, "http://unknown/no%20url"},
		"a value":           {fmt.Sprintf("%q", newRequest(&traffic.Exchange{Method: "GET", URL: "http://a/?a=%1b[31m&b=%ff"}).QueryString), `[{"a" "\x1b[31m"} {"b" "%ff"}]`},
		"nothing":           {e[3].Request.URL, "http://unknown/"},
		"no answer":         {e[2].Response.Error, "no response: EOF"},
		"a name":            {e[2].ServerIP + e[2].Conn, ""},
		"half text":         {e[2].Response.Content.Encoding, "base64"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
}

// What did not happen is -1, and what did adds up to the whole time.
func TestTimings(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		e    traffic.Exchange
		want timings
	}{
		{traffic.Exchange{Took: 31 * ms, First: 30 * ms, DNS: 2 * ms, Conn: 5 * ms}, timings{2, 5, 0, 23, 1}},
		{traffic.Exchange{Took: 31 * ms, First: 30 * ms, Conn: ms}, timings{-1, 1, 0, 29, 1}},
		{traffic.Exchange{Took: 31 * ms, First: 30 * ms}, timings{-1, -1, 0, 30, 1}},
		{traffic.Exchange{Took: 31 * ms}, timings{-1, -1, 0, 31, 0}},
		{traffic.Exchange{Took: 31 * ms, Conn: 31 * ms}, timings{-1, 31, 0, 0, 0}},
		{traffic.Exchange{Took: 3 * ms, First: 3 * ms, DNS: 9 * ms, Conn: 9 * ms}, timings{3, -1, 0, 0, 0}}, // clocks that disagree
		{traffic.Exchange{}, timings{-1, -1, 0, 0, 0}},
	} {
		got := newTimings(&c.e)
		sum := got.Send + got.Wait + got.Receive + max(got.DNS, 0) + max(got.Connect, 0)
		if got != c.want || sum != newEntry(&c.e, false).Time {
			t.Errorf("%+v: %+v, in all %v; want %+v", c.e, got, sum, c.want)
		}
	}
}

// The lists of cookies say what the fields say, without a value.
func TestCookies(t *testing.T) {
	h := traffic.HeadText("Cookie: a=1; b=hunter2; c\r\ncookie: d=4\r\nSet-Cookie: sid=hunter2; Path=/; Domain=test; Expires=Wed, 21-Oct-2026 07:28:00 GMT; HttpOnly; Secure; SameSite=Lax\r\n" +
		"Set-Cookie: x=1; expires=soon\r\nX-Cookie: y=2\r\n")
	if got := cookies(h, "Cookie"); !slices.Equal(got, []cookie{{Name: "a", Value: "***"}, {Name: "b", Value: "***"}, {Value: "***"}, {Name: "d", Value: "***"}}) {
		t.Errorf("%+v", got)
	}
	got := cookies(h, "Set-Cookie")
	if len(got) != 2 || got[0] != (cookie{"sid", "***", "/", "test", "2026-10-21T07:28:00Z", true, true}) || got[1] != (cookie{Name: "x", Value: "***"}) {
		t.Errorf("%+v", got)
	}
}
