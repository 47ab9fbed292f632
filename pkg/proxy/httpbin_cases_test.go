package proxy

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// binCase is one request to httpbin. What of its answer differs from one call to
// the next is named by blur.
type binCase struct {
	method, path string
	header       http.Header
	body         string
	chunked      bool // the body is sent without its length
	blur         string
}

// binCases are requests to every endpoint of httpbin: the patterns are its own, in
// the order of its own list.
func binCases(t *testing.T) []binCase {
	t.Helper()
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	json := http.Header{"Content-Type": {"application/json"}}
	file := http.Header{"Content-Type": {"multipart/form-data; boundary=b"}}
	const fileBody = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nline\r\n\x00\r\n--b--\r\n"
	bin := strings.Repeat("\x00\xff\r\n", 40<<10)
	cases := []binCase{
		{method: "DELETE", path: "/delete?x=1", header: json, body: `{"a":[1]}`},
		{method: "DELETE", path: "/delete"},
		{path: "/"},
		{path: "/encoding/utf8"},
		{path: "/forms/post"},
		{path: "/get?a=1&a=2&b=%20%2F%C3%BC&c"},
		{path: "/get", header: http.Header{"User-Agent": nil, "X-Two": {"1", "2"}, "Accept": {"a/b", "c/d"}, "X-Empty": {""}}},
		{method: "POST", path: "/get", body: "405"},
		{method: "HEAD", path: "/head?x=1"},
		{method: "PATCH", path: "/patch", header: form, body: "a=1&b=%2F&a=2"},
		{method: "POST", path: "/post", header: form, body: "a=1&b=%2F&a=2"},
		{method: "POST", path: "/post", header: json, body: `{"a":"ü"}`, chunked: true},
		{method: "POST", path: "/post", header: file, body: fileBody},
		{method: "POST", path: "/post", header: http.Header{"Expect": {"100-continue"}, "Content-Type": {"text/plain"}}, body: "late"},
		{method: "POST", path: "/post", header: json, body: "{"},
		{method: "PUT", path: "/put", header: http.Header{"Content-Type": {"application/octet-stream"}}, body: bin},
		{path: "/absolute-redirect/3"},
		{path: "/absolute-redirect/0"},
		{path: "/anything?q"},
		{method: "QUERY", path: "/anything", header: json, body: `{"q":1}`},
		{method: "PROPFIND", path: "/anything/a/b;c=1/d%2Fe%20f?x=%2F&y=a+b", header: http.Header{"Depth": {"1"}}},
		{path: "/anything//a/../b"}, // httpbin's mux redirects
		{path: "/base64/aGVsbG8gd29ybGQ="},
		{path: "/base64/encode/hello%20world"},
		{path: "/base64/decode/PGI-?content-type=text%2Fhtml"},
		{path: "/base64/decode/*"},
		{path: "/basic-auth/alice/secret"},
		{path: "/basic-auth/alice/secret", header: basic("alice", "secret")},
		{path: "/basic-auth/alice/secret", header: basic("alice", "wrong")},
		{path: "/bearer"},
		{path: "/bearer", header: http.Header{"Authorization": {"Bearer token"}}},
		{path: "/bytes/70000?seed=7"},
		{path: "/bytes/0"},
		{path: "/cache", blur: "etag,last-modified"},
		{path: "/cache", header: http.Header{"If-None-Match": {`"x"`}}},
		{path: "/cache", header: http.Header{"If-Modified-Since": {"Sun, 06 Nov 1994 08:49:37 GMT"}}},
		{path: "/cache/60"},
		{path: "/cookies", header: http.Header{"Cookie": {"a=1; b=2"}}},
		{path: "/cookies/delete?a=1", blur: "expires"},
		{path: "/cookies/set?a=1&attr[Path]=%2Fx&attr[Max-Age]=9"},
		{path: "/deflate"},
		{path: "/deflate", header: http.Header{"Accept-Encoding": {"deflate, br"}}},
		{path: "/delay/0.02"},
		{method: "POST", path: "/delay/20ms", header: form, body: "a=1"},
		{path: "/delay/-1"},
		{path: "/deny"},
		{path: "/digest-auth/auth/u/p", blur: "nonce"},
		{path: "/digest-auth/auth/u/p", header: digest("/digest-auth/auth/u/p", "MD5"), blur: "nonce"},
		{path: "/digest-auth/auth/u/p/SHA-256", blur: "nonce"},
		{path: "/digest-auth/auth/u/p/SHA-256", header: digest("/digest-auth/auth/u/p/SHA-256", "SHA-256"), blur: "nonce"},
		{path: "/drip?duration=40ms&delay=10ms&numbytes=5"},
		{path: "/drip?duration=10ms&delay=0s&numbytes=3&code=503"},
		{path: "/drip?duration=0s&delay=0s&numbytes=50000"},
		{path: "/dump/request?a=%2F", header: http.Header{"Range": {"bytes=0-1"}, "Via": {"1.1 other"}, "X-Forwarded-For": {"192.0.2.1"}, "Forwarded": {"for=192.0.2.1"}}},
		{method: "POST", path: "/dump/request", body: "as it comes", chunked: true},
		{path: "/env"},
		{path: "/etag/v1", blur: "last-modified"},
		{path: "/etag/v1", header: http.Header{"If-None-Match": {`"v0", "v1"`}}, blur: "last-modified"},
		{path: "/etag/v1", header: http.Header{"If-Match": {`"v2"`}}, blur: "last-modified"},
		{path: "/etag/v1", header: http.Header{"Range": {"bytes=2-5"}, "If-Range": {`"v1"`}}, blur: "last-modified"},
		{path: "/gzip"},
		{path: "/gzip", header: http.Header{"Accept-Encoding": {"gzip"}}},
		{path: "/headers", header: http.Header{"X-Long": {strings.Repeat("x", 16<<10)}, "Te": {"trailers"}}},
		{path: "/hidden-basic-auth/alice/secret"},
		{path: "/hidden-basic-auth/alice/secret", header: basic("alice", "secret")},
		{path: "/hostname"},
		{path: "/html"},
		{path: "/image", header: http.Header{"Accept": {"image/webp"}}},
		{path: "/image", header: http.Header{"Accept": {"text/plain"}}},
		{path: "/image/png"},
		{path: "/image/jpeg"},
		{path: "/image/svg"},
		{path: "/image/none"},
		{path: "/ip?format=text"},
		{path: "/json"},
		{path: "/jsonl?count=5&duration=20ms&delay=5ms"},
		{path: "/links/3"},
		{path: "/links/3/1"},
		{path: "/range/2000"},
		{path: "/range/2000", header: http.Header{"Range": {"bytes=10-19"}}},
		{path: "/range/2000", header: http.Header{"Range": {"bytes=0-1,5-9"}}, blur: "boundary"},
		{path: "/range/2000", header: http.Header{"Range": {"bytes=3000-"}}},
		{path: "/range/26?duration=10ms"},
		{path: "/redirect-to?url=https%3A%2F%2Felsewhere.test%2Fa%3Fb&status_code=307"},
		{path: "/redirect-to?url=%2Fget"},
		{path: "/redirect-to"},
		{path: "/redirect/2"},
		{path: "/redirect/2?absolute=true"},
		{path: "/relative-redirect/1"},
		{path: "/response-headers?X-One=1&X-One=2&Server=bin&Connection=X-Own&X-Own=1"},
		{path: "/response-headers?Content-Type=text%2Fplain&X-Lower=%C3%BC"},
		{path: "/robots.txt"},
		{path: "/sse?count=4&duration=20ms", blur: "timestamp,total_duration"},
		{path: "/status/200:0.000001,204:1000000"},
		{path: "/status/nope"},
		{path: "/stream-bytes/50000?seed=3&chunk_size=999"},
		{path: "/stream-bytes/0"},
		{path: "/stream/4?a=1"},
		{path: "/trailers?X-One=1&X-Two=2"},
		{path: "/trailers?Content-Length=1"},
		{method: "POST", path: "/trailers?X-T=" + strings.Repeat("t", 2<<10), header: form, body: "a=1"},
		{path: "/unstable?seed=1&failure_rate=0.5"},
		{path: "/unstable?seed=4&failure_rate=0.5"},
		{path: "/unstable?failure_rate=2"},
		{method: "POST", path: "/upload", body: bin},
		{method: "PUT", path: "/upload", body: bin, chunked: true},
		{method: "PATCH", path: "/upload", header: http.Header{"Content-Encoding": {"gzip"}}, body: zipped(t, "zipped by the caller")},
		{path: "/user-agent", header: http.Header{"User-Agent": {"a client/1 (ü)"}}},
		{path: "/uuid", blur: "uuid"},
		{path: "/version"},
		{path: "/xml"},
		{path: "/brotli", header: http.Header{"Accept-Encoding": {"br"}}}, // httpbin says 501
		{path: "/websocket/echo"}, // without an upgrade; with one: TestHTTPBinWebSocket
		{path: "/no/such/endpoint?x"},
		{method: "OPTIONS", path: "/get", header: http.Header{"Origin": {"http://page.test"}, "Access-Control-Request-Method": {"PUT"}, "Access-Control-Request-Headers": {"x-a, x-b"}}},
	}
	for _, code := range []int{100, 102, 103, 200, 201, 202, 203, 204, 205, 206, 207, 300, 301, 302, 303, 304, 305, 307, 308, 400, 401, 402, 403, 404,
		405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 511, 599} {
		cases = append(cases, binCase{path: fmt.Sprint("/status/", code)})
	}
	for _, c := range cases {
		if c.method == "" {
			c.method = "HEAD"
			cases = append(cases, c)
		}
	}
	for i := range cases {
		if cases[i].method == "" {
			cases[i].method = "GET"
		}
	}
	return cases
}

func basic(user, password string) http.Header {
	return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}}
}

// digest answers a challenge of RFC 7616 for u and p; httpbin takes any nonce.
func digest(uri, algorithm string) http.Header {
	sum := func(s string) string {
		if algorithm == "MD5" {
			return fmt.Sprintf("%x", md5.Sum([]byte(s)))
		}
		return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))
	}
	response := sum(sum("u:go-httpbin:p") + ":n:00000001:c:auth:" + sum("GET:"+uri))
	return http.Header{"Authorization": {fmt.Sprintf(`Digest username="u", realm="go-httpbin", nonce="n", uri="%s", qop=auth, nc=00000001, cnonce="c", response="%s", algorithm=%s`,
		uri, response, algorithm)}}
}

func zipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
