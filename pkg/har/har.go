package har

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"lane/pkg/traffic"
)

// The types are those of the HAR 1.2 specification
// (http://www.softwareishard.com/blog/har-12-spec/); fields of ours begin with an
// underscore, as it says. A size or a time that is not known is -1.
type (
	archive struct {
		Log log `json:"log"`
	}
	log struct {
		Version string  `json:"version"`
		Creator creator `json:"creator"`
		Entries []entry `json:"entries"`
		Comment string  `json:"comment,omitempty"`
	}
	creator struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	entry struct {
		Started  string   `json:"startedDateTime"`
		Time     float64  `json:"time"`
		Request  request  `json:"request"`
		Response response `json:"response"`
		Cache    struct{} `json:"cache"`
		Timings  timings  `json:"timings"`
		ServerIP string   `json:"serverIPAddress,omitempty"`
		// Conn is the server's port: what else HAR has for it, and viewers show it.
		Conn     string `json:"connection,omitempty"`
		Comment  string `json:"comment,omitempty"`
		Lane     string `json:"_lane,omitempty"`
		Service  string `json:"_service,omitempty"`
		Route    string `json:"_route"`
		Reason   string `json:"_reason,omitempty"`
		Instance string `json:"_instance,omitempty"`
		Trace    string `json:"_traceId,omitempty"`
		Marked   bool   `json:"_marked,omitempty"`
		Resource string `json:"_resourceType,omitempty"`
	}
	request struct {
		Method      string    `json:"method"`
		URL         string    `json:"url"`
		HTTPVersion string    `json:"httpVersion"`
		Cookies     []cookie  `json:"cookies"`
		Headers     []pair    `json:"headers"`
		QueryString []pair    `json:"queryString"`
		PostData    *postData `json:"postData,omitempty"`
		HeadersSize int       `json:"headersSize"`
		BodySize    int64     `json:"bodySize"`
	}
	response struct {
		Status      int      `json:"status"`
		StatusText  string   `json:"statusText"`
		HTTPVersion string   `json:"httpVersion"`
		Cookies     []cookie `json:"cookies"`
		Headers     []pair   `json:"headers"`
		Content     content  `json:"content"`
		RedirectURL string   `json:"redirectURL"`
		HeadersSize int      `json:"headersSize"`
		BodySize    int64    `json:"bodySize"`
		Transferred int64    `json:"_transferSize"` // Chromium makes it of the two sizes, of which one is -1
		Error       string   `json:"_error,omitempty"`
	}
	pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	postData struct {
		MimeType string `json:"mimeType"`
		Params   []pair `json:"params"`
		Text     string `json:"text"`
		Comment  string `json:"comment,omitempty"`
	}
	content struct {
		Size     int64  `json:"size"`
		MimeType string `json:"mimeType"`

		// Compression is how many bytes it was shorter on its way.
		Compression int64  `json:"compression,omitempty"`
		Text        string `json:"text,omitempty"`
		Encoding    string `json:"encoding,omitempty"`
		Comment     string `json:"comment,omitempty"`
	}
	timings struct {
		DNS     float64 `json:"dns"`
		Connect float64 `json:"connect"`
		Send    float64 `json:"send"`
		Wait    float64 `json:"wait"`
		Receive float64 `json:"receive"`
	}
)

// Options are what an archive says of itself.
type Options struct {
	Version string // of this program
	Comment string
	Marked  map[uint64]bool // exchanges that the user marked, by Seq
}

// Encode makes an archive of exchanges, in their order.
func Encode(rows []traffic.Exchange, o Options) ([]byte, error) {
	a := archive{log{Version: "1.2", Creator: creator{"lane", o.Version}, Entries: make([]entry, len(rows)), Comment: clean(o.Comment)}}
	for i := range rows {
		a.Log.Entries[i] = newEntry(&rows[i], o.Marked[rows[i].Seq])
	}
	return json.MarshalIndent(a, "", "  ")
}

func newEntry(e *traffic.Exchange, marked bool) entry {
	at := ""
	if ip(e.Addr) != "" {
		at = port(e.Addr)
	}
	return entry{
		Started: e.Start.Format("2006-01-02T15:04:05.000Z07:00"), Time: ms(e.Took),
		Request: newRequest(e), Response: newResponse(e),
		Timings:  newTimings(e),
		ServerIP: ip(e.Addr), Conn: at, Comment: clean(traffic.Route(e) + ": " + traffic.Why(e)),
		Lane: clean(string(e.Lane)), Service: clean(e.Service), Route: traffic.Route(e), Reason: clean(string(e.Reason)),
		Instance: clean(e.Instance), Trace: clean(e.TraceID), Marked: marked, Resource: resourceType(e),
	}
}

// resourceType is what Chromium sorts by: without one, it takes JSON and gRPC for scripts.
func resourceType(e *traffic.Exchange) string {
	mime, _, _ := strings.Cut(strings.ToLower(e.ResHeader.Get("Content-Type")), ";")
	switch mime = strings.TrimSpace(mime); {
	case e.Proto == "ws":
		return "websocket"
	case strings.HasPrefix(mime, "application/") && !strings.Contains(mime, "script") && !strings.Contains(mime, "font"):
		return "fetch"
	}
	return ""
}

// newTimings divides the time of an exchange. What did not happen, or is not known, is
// -1, as the specification has it for a connection that was used again; it is no part of
// the sum.
func newTimings(e *traffic.Exchange) timings {
	dns, conn, wait, rest := e.Phases()
	some := func(d time.Duration) float64 {
		if d <= 0 {
			return -1
		}
		return ms(d)
	}
	return timings{DNS: some(dns), Connect: some(conn), Send: 0, Wait: ms(wait), Receive: ms(rest)}
}

func newRequest(e *traffic.Exchange) request {
	u := traffic.MaskURL(e.URL)
	if e.Method != "CONNECT" && e.URL != "" && !strings.Contains(e.URL, "://") {
		// Refused: its target is no URL. As much of it as there is.
		host := e.Service
		if host == "" {
			host = "unknown"
		}
		u = "http://" + host + "/" + strings.TrimLeft(u, "/")
	}
	if e.Method == "CONNECT" {
		u = "https://" + u + "/" // a viewer wants a URL
	}
	r := request{Method: clean(e.Method), URL: uri(u), HTTPVersion: version(e.Proto), Cookies: cookies(e.ReqHeader, "Cookie"),
		Headers: fields(e.ReqHeader), QueryString: query(u), HeadersSize: -1, BodySize: e.ReqSize}
	if e.ReqBody != nil && len(e.ReqBody.Bytes) > 0 {
		text, encoding, comment, _ := bodyText(e.ReqBody, e.ReqHeader)
		if encoding != "" {
			comment = strings.TrimSuffix("base64; "+comment, "; ")
		}
		r.PostData = &postData{MimeType: clean(e.ReqHeader.Get("Content-Type")), Params: []pair{}, Text: text, Comment: comment}
	}
	return r
}

func newResponse(e *traffic.Exchange) response {
	mime := e.ResHeader.Get("Content-Type")
	c := content{Size: e.ResSize, MimeType: clean(mime)}
	if mime == "" {
		c.MimeType = "x-unknown"
	}
	if e.ResBody != nil {
		var whole int64
		if c.Text, c.Encoding, c.Comment, whole = bodyText(e.ResBody, e.ResHeader); whole > 0 {
			c.Size, c.Compression = whole, whole-e.ResSize
		}
	}
	r := response{Status: e.Status, StatusText: "", HTTPVersion: version(e.Proto), Cookies: cookies(e.ResHeader, "Set-Cookie"),
		Headers: fields(e.ResHeader), Content: c, RedirectURL: clean(traffic.MaskURL(e.ResHeader.Get("Location"))), HeadersSize: -1, BodySize: e.ResSize, Transferred: e.ResSize}
	if e.Failed() && e.Status == 0 {
		r.Error = clean(traffic.Outcome(e))
	}
	return r
}

// bodyText is a body as JSON can hold it: its text, masked and as it was before it was
// compressed, or base64 of what is no text. whole is its length in clear if that is
// another one, and known.
func bodyText(b *traffic.Body, h traffic.Head) (text, encoding, comment string, whole int64) {
	s := traffic.Show(b, h)
	var says []string
	if s.Left != "" {
		return "", "", clean("left out: " + s.Left), 0
	}
	if b.Cut {
		says = append(says, "cut: only the first bytes were kept")
	}
	if s.Coding != "" {
		says = append(says, "was compressed: "+s.Coding)
		if !s.Cut {
			whole = int64(s.Len)
		}
	}
	comment = clean(strings.Join(says, "; "))
	if s.Kind == traffic.BodyBinary || s.Kind == traffic.BodyGRPC || !utf8.Valid(s.Bytes) {
		return base64.StdEncoding.EncodeToString(s.Bytes), "base64", comment, whole
	}
	return string(s.Bytes), "", comment, whole
}

// fields are a head's, cookies among them, with their secrets masked.
func fields(h traffic.Head) []pair {
	out := []pair{}
	for _, f := range h.Fields() {
		out = append(out, pair{clean(f.Name), clean(f.Value)})
	}
	return out
}

// query are the parameters of a URL, as far as they can be read.
func query(u string) []pair {
	out := []pair{}
	_, q, _ := strings.Cut(u, "?")
	q, _, _ = strings.Cut(q, "#")
	for p := range strings.SplitSeq(q, "&") {
		if p == "" {
			continue
		}
		k, v, _ := strings.Cut(p, "=")
		out = append(out, pair{unescape(k), unescape(v)})
	}
	return out
}

func unescape(s string) string {
	if t, err := url.QueryUnescape(s); err == nil && utf8.ValidString(t) {
		return t // a value, for no terminal
	}
	return clean(s)
}

// clean makes a string that JSON can hold without loss: bytes that are no UTF-8
// are written as escapes, control characters too.
func clean(s string) string { return traffic.Printable(s) }

// uri is a URL in the characters that one may have (RFC 3986).
func uri(u string) string {
	if !strings.Contains(u, "://") {
		return "http://unknown/"
	}
	var b strings.Builder
	for i := 0; i < len(u); i++ {
		if c := u[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func version(proto string) string {
	if strings.HasPrefix(proto, "HTTP/") {
		return clean(proto)
	}
	return "HTTP/1.1"
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ip is the address of host:port without its port, empty if it is none.
func ip(addr string) string {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return ""
	}
	host := strings.Trim(addr[:i], "[]")
	if strings.Trim(host, "0123456789abcdef.:") != "" || !strings.ContainsAny(host, ".:") {
		return ""
	}
	return host
}
