package traffic

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"mime/quotedprintable"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// marked is a secret that nothing else contains.
const marked = "Zq7Marked9vK"

// secretBodies are bodies with a marked secret below a secret name, in each form that
// there is, with anything around it.
func secretBodies(t *testing.T, before, after string) []string {
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	field := func(head, content string) string {
		return "--b1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--b1\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + content + "\r\n--b1--\r\n"
	}
	secret := before + marked + after
	value := quoted(secret)
	bodies := []string{
		"user=" + url.QueryEscape(before) + "&password=" + url.QueryEscape(secret) + "&a=" + url.QueryEscape(after),
		field(`name="password"`, secret),
	}
	for _, name := range []string{`"password"`, `"Pass\u0077ords"`, `"client_secret"`} {
		for _, v := range []string{value, "[" + value + "]", `{"v":` + value + `}`, `[{"v":[1,` + value + `]}]`} {
			bodies = append(bodies, `{"a":`+quoted(before)+`,`+name+`:`+v+`,"b":`+quoted(after)+`}`)
		}
	}
	bodies = append(bodies, `{"env":[{"name":"A","value":`+quoted(before)+`},{"name":"DB_PASSWORD","value":`+value+`}]}`)
	member := bodies[len(bodies)-2]
	bodies = append(bodies, field("name=\"x\"\r\nContent-Transfer-Encoding: base64", base64.StdEncoding.EncodeToString([]byte(member))))
	var printed bytes.Buffer
	w := quotedprintable.NewWriter(&printed)
	_, err := io.WriteString(w, member)
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	bodies = append(bodies, field("name=\"x\"\r\nContent-Transfer-Encoding: quoted-printable", printed.String()))

	xml := html.EscapeString
	bodies = append(bodies,
		`<?xml version="1.0"?><a b="`+xml(before)+`">`+xml(before)+`<ns:password c="`+xml(after)+`">`+xml(secret)+`</ns:password>`+xml(after)+`</a>`,
		`<a><token><token>`+xml(before)+`</token><v>`+xml(secret)+`</v></token></a>`,
		`<a `+`password="`+xml(secret)+`">`+xml(after)+`</a>`,
		`<add key="password" value="`+xml(secret)+`"/>`,
		`<a><name>`+xml(before)+`</name><p><name>Authorization</name><value>`+xml(secret)+`</value></p></a>`,
		`<a>`+xml(before)+`<![CDATA[<password>`+xml(secret)+`</password>]]></a>`)

	yaml := func(s string) string { // JSON's strings are YAML's
		return quoted(s)
	}
	block := strings.NewReplacer("\r", "", "\n", "\n    ").Replace("x" + secret)
	bodies = append(bodies,
		"a: "+yaml(before)+"\npassword: "+yaml(secret)+"\nb: "+yaml(after)+"\n",
		"l:\n  - a: "+yaml(before)+"\n    token: "+yaml(secret)+"\n",
		"a: "+yaml(before)+"\nsecret:\n  v:\n  - "+yaml(secret)+"\n",
		"a: 1\nsecret: |\n    "+block+"\nb: "+yaml(after)+"\n",
		"a: {b: "+yaml(before)+", password: "+yaml(secret)+"}\n",
		"env:\n- name: A\n  value: "+yaml(before)+"\n- name: DB_PASSWORD\n  value: "+yaml(secret)+"\n",
		"export PASSWORD="+yaml(secret)+"\n",
		"a: 'x'\npassword: '"+strings.ReplaceAll(secret, "'", "''")+"'\n")
	return bodies
}

// FuzzMask looks for a secret in what is shown of each of these bodies: whatever it is
// sent as and wherever it is cut, it is gone.
func FuzzMask(f *testing.F) {
	for _, s := range []string{"", "a", `"`, `\`, "{", "]", "--b\r\n", "&x=y;", "\x00", "é", `\u0022`, ":", "b=c", "<a", "]]>", "'", "\n- ", "# ", "\n", "-->"} {
		f.Add(s, s, uint16(3))
		f.Add(s, "", uint16(60))
	}
	f.Fuzz(func(t *testing.T, before, after string, cut uint16) {
		if len(before)+len(after) > 4000 || strings.Contains(before+after, marked) || strings.Contains(before+after, "--b1") {
			return
		}
		for _, b := range secretBodies(t, before, after) {
			for _, mime := range []string{"application/json", formType, "text/plain", "multipart/form-data; boundary=b1", "application/xml", "text/html", "application/yaml", ""} {
				for _, n := range []int{len(b), max(len(b)-int(cut)%32, 0)} {
					s := Show(&Body{Bytes: []byte(b[:n]), Cut: n < len(b)}, HeadText("Content-Type: "+mime+"\r\n"))
					if bytes.Contains(s.Bytes, []byte(marked)) {
						t.Fatalf("%s %q: %q", mime, b[:n], s.Bytes)
					}
					if unread := base64.StdEncoding.EncodeToString([]byte(marked)); bytes.Contains(s.Bytes, []byte(unread[1:len(unread)-4])) {
						t.Fatalf("%s %q: %q", mime, b[:n], s.Bytes)
					}
				}
			}
		}
	})
}

// FuzzShow shows anything as anything.
func FuzzShow(f *testing.F) {
	for _, s := range secretBodies(&testing.T{}, "a", "b") {
		f.Add([]byte(s), "text/plain", "gzip")
	}
	f.Fuzz(func(t *testing.T, b []byte, mime, coding string) {
		if len(b) > 1<<16 {
			return
		}
		h := HeadOfFields([]Field{{"Content-Type", mime}, {"Content-Encoding", coding}}, false)
		s := Show(&Body{Bytes: b}, h)
		if utf8.Valid(b) && s.Coding == "" && s.Left == "" && len(s.Bytes) == 0 && len(b) > 0 {
			t.Errorf("nothing is shown of %q as %q", b, mime)
		}
		_, _ = Curl(&Exchange{Method: "POST", URL: "http://a/", ReqHeader: h, ReqSize: int64(len(b)), ReqBody: &Body{Bytes: b}}, CurlOptions{})
	})
}

// packed are codings, and how a body is put into each.
func packed(t *testing.T) map[string]func(string) []byte {
	through := func(f func(io.Writer) io.WriteCloser) func(string) []byte {
		return func(s string) []byte {
			var b bytes.Buffer
			w := f(&b)
			_, err := io.WriteString(w, s)
			if err != nil || w.Close() != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		}
	}
	gz := through(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	return map[string]func(string) []byte{
		"gzip":    gz,
		"GZip, ,": gz,
		"deflate": through(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"deflate, identity": through(func(w io.Writer) io.WriteCloser {
			out, err := flate.NewWriter(w, 1)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}),
		"br": through(func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }),
		"zstd": through(func(w io.Writer) io.WriteCloser {
			out, err := zstd.NewWriter(w)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}),
		"gzip, gzip": func(s string) []byte { return gz(string(gz(s))) },
		"":           gz, // the head does not say it
	}
}

// TestMaskCompressed: a compressed body is read to be masked, and one that cannot be
// read is left out.
func TestMaskCompressed(t *testing.T) {
	const body, want = `{"password":"` + marked + `","a":"b"}`, `{"password":"***","a":"b"}`
	for coding, pack := range packed(t) {
		h := HeadText("Content-Type: application/json\r\nContent-Encoding: " + coding + "\r\n")
		raw := pack(body)
		s := Show(&Body{Bytes: raw}, h)
		if string(s.Bytes) != want || !s.Masked || s.Cut || s.Left != "" {
			t.Errorf("%q: %+v", coding, s)
		}
		e := Exchange{Method: "POST", URL: "http://a/", ReqHeader: h, ReqSize: int64(len(raw)), ReqBody: &Body{Bytes: raw}}
		line, err := Curl(&e, CurlOptions{})
		if err != nil || !strings.Contains(line, want) || strings.Contains(line, "Content-Encoding") && coding != "" {
			t.Errorf("%q: %s %v", coding, line, err)
		}
		if line, err = Curl(&e, CurlOptions{Secrets: true}); err != nil || !strings.HasPrefix(line, "printf ") || coding != "" && !strings.Contains(line, "Content-Encoding: "+coding) {
			t.Errorf("%q with its secrets: %s %v", coding, line, err)
		}
		// One without secrets stays as it was.
		raw = pack(`{"a":"b"}`)
		e.ReqSize, e.ReqBody = int64(len(raw)), &Body{Bytes: raw}
		if line, err = Curl(&e, CurlOptions{}); err != nil || !strings.HasPrefix(line, "printf ") {
			t.Errorf("%q without secrets: %s %v", coding, line, err)
		}
		// What was cut is read as far as it goes.
		long := pack(`{"password":"` + marked + `","a":"` + strings.Repeat("abc ", 3000) + `"}`)
		if s := Show(&Body{Bytes: long[:len(long)-9], Cut: true}, h); bytes.Contains(s.Bytes, []byte(marked)) || !s.Cut {
			t.Errorf("%q, cut: %+v", coding, s)
		}
	}
	unread := "\x1f\x9d\x90" + body
	for _, coding := range []string{"compress", "gzip", "gzip, gzip, gzip, gzip", "br, x"} {
		h := HeadText("Content-Type: application/json\r\nContent-Encoding: " + coding + "\r\n")
		s := Show(&Body{Bytes: []byte(unread)}, h)
		if len(s.Bytes) > 0 || !strings.Contains(s.Left, "compressed") {
			t.Errorf("%q: %+v", coding, s)
		}
		e := Exchange{Method: "POST", URL: "http://a/", ReqHeader: h, ReqSize: int64(len(unread)), ReqBody: &Body{Bytes: []byte(unread)}}
		if _, err := Curl(&e, CurlOptions{}); err == nil || !strings.Contains(err.Error(), "compressed") {
			t.Errorf("%q: %v", coding, err)
		}
		if _, err := Curl(&e, CurlOptions{Secrets: true}); err != nil {
			t.Errorf("%q with its secrets: %v", coding, err)
		}
	}
	// A text is one, whatever its head says.
	if s := Show(&Body{Bytes: []byte(body)}, HeadText("Content-Encoding: gzip\r\n")); string(s.Bytes) != want || s.Coding != "" {
		t.Errorf("%+v", s)
	}
	// Of a head that was cut nobody knows whether the body is compressed.
	h := HeadOfFields([]Field{{"X", "y"}}, true)
	if s := Show(&Body{Bytes: packed(t)["br"](body)}, h); s.Left == "" {
		t.Errorf("%+v", s)
	}
	// A bomb does not go off.
	if s := Show(&Body{Bytes: packed(t)["gzip"](strings.Repeat("a", 8<<20))}, HeadText("Content-Encoding: gzip\r\n")); len(s.Bytes) > decodedMost || !s.Cut {
		t.Errorf("%d bytes, cut %v", len(s.Bytes), s.Cut)
	}
}
