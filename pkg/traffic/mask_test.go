package traffic

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

const formType = "application/x-www-form-urlencoded"

func maskSent(contentType, body string) string {
	return string(MaskBody(KindOf(contentType, "", []byte(body)), []byte(body)))
}

// TestMaskByContent: what a body is sent as does not decide what is masked in it.
func TestMaskByContent(t *testing.T) {
	part := func(name, rest, content string) string {
		return "--b1\r\nContent-Disposition: form-data; name=\"" + name + "\"" + rest + "\r\n\r\n" + content + "\r\n"
	}
	for _, c := range []struct{ mime, in, want string }{
		{formType, `{"password":"X"}`, `{"password":"***"}`},
		{formType, ` [{"password":"X"}`, ` [{"password":"***"}`},
		{formType, `user=a&data=%7B%22password%22%3A%22X%22%7D`, `user=a&data=%7B%22password%22%3A%22%2A%2A%2A%22%7D`},
		{formType, `user=a&passwords=X;Y=Z&b=c`, `user=a&passwords=***&b=c`},
		{formType, `a=1;token=X`, `a=1;token=***`},
		{"text/plain", `user=a&password=X`, `user=a&password=***`},
		{"application/json", `user=a&pass%77ord=X`, `user=a&pass%77ord=***`},
		{"application/json", `{"Password":["X","Y"],"a":[1]}`, `{"Password":"***","a":[1]}`},
		{"", `{"passwords":["X",{"v":"}"}],"a":"b"}`, `{"passwords":"***","a":"b"}`},
		{"", `{"secret":{"v":"X","w":[{"x":"]}"}]},"a":"b"}`, `{"secret":"***","a":"b"}`},
		{"", `{"pass\u0077ord":"X","a\u0077":"b"}`, `{"pass\u0077ord":"***","a\u0077":"b"}`},
		{"", `{"userPassword":"X","api_keys":["X"],"monkey":"m","compass":"n"}`, `{"userPassword":"***","api_keys":"***","monkey":"m","compass":"n"}`},
		{"", `{"in":"{\"token\":\"X\"}","url":"/a?b=c"}`, `{"in":"{\"token\":\"***\"}","url":"/a?b=c"}`},
		{"", `{"a":1,"tokens":["X","Y`, `{"a":1,"tokens":"***"`},
		{"", `say "hi: {"password":"X"} "a":"b"`, `say "hi: {"password":"***"} "a":"b"`},
		{"", `{"token" : null, "a":"token"}`, `{"token" : null, "a":"token"}`},
		{"multipart/form-data; boundary=b1", part("password", "", "X\r\nY") + part("a", "", "b") + "--b1--\r\n", part("password", "", "***") + part("a", "", "b") + "--b1--\r\n"},
		{"multipart/form-data; boundary=b1", part("tokens[]", "; filename=\"f\"\r\nContent-Type: text/plain", "X"), part("tokens[]", "; filename=\"f\"\r\nContent-Type: text/plain", "***")},
		{"multipart/form-data; boundary=b1", part("f", "", "\x00\xff") + part("password", "", "X"), part("f", "", "\x00\xff") + part("password", "", "***")},
		{"multipart/form-data; boundary=b1", part("meta", "\r\nContent-Type: application/json", `{"token":"X"}`), part("meta", "\r\nContent-Type: application/json", `{"token":"***"}`)},
		{"text/plain", part("password", "", "X"), part("password", "", "***")},
		{"multipart/form-data; boundary=b1", part("a", "", "b") + "--b1--\r\n", part("a", "", "b") + "--b1--\r\n"},
	} {
		if got := maskSent(c.mime, c.in); got != c.want {
			t.Errorf("%s %q:\n got %q\nwant %q", c.mime, c.in, got, c.want)
		}
	}
}

// FuzzMask puts a marked secret below a secret name, in each form that there is, with
// anything around it: whatever the body is sent as and wherever it is cut, it is gone.
func FuzzMask(f *testing.F) {
	const secret = "Zq7Marked9vK"
	for _, s := range []string{"", "a", `"`, `\`, "{", "]", "--b\r\n", "&x=y;", "\x00", "é", `\u0022`, ":", "b=c"} {
		f.Add(s, s, uint16(3))
		f.Add(s, "", uint16(60))
	}
	f.Fuzz(func(t *testing.T, before, after string, cut uint16) {
		if len(before)+len(after) > 4000 || strings.Contains(before+after, secret) || strings.Contains(before+after, "--b1") {
			return
		}
		quoted := func(s string) string {
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		value := quoted(before + secret + after)
		bodies := []string{"user=" + url.QueryEscape(before) + "&password=" + url.QueryEscape(before+secret+after) + "&a=" + url.QueryEscape(after),
			"--b1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--b1\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n" + before + secret + after + "\r\n--b1--\r\n"}
		for _, name := range []string{`"password"`, `"Pass\u0077ords"`, `"client_secret"`} {
			for _, v := range []string{value, "[" + value + "]", `{"v":` + value + `}`, `[{"v":[1,` + value + `]}]`} {
				bodies = append(bodies, `{"a":`+quoted(before)+`,`+name+`:`+v+`,"b":`+quoted(after)+`}`)
			}
		}
		for _, b := range bodies {
			for _, mime := range []string{"application/json", formType, "text/plain", "multipart/form-data; boundary=b1", ""} {
				for _, n := range []int{len(b), max(len(b)-int(cut)%32, 0)} {
					kind := KindOf(mime, "", []byte(b[:n]))
					if kind == BodyBinary || kind == BodyGRPC {
						continue // has no names
					}
					if out := MaskBody(kind, []byte(b[:n])); bytes.Contains(out, []byte(secret)) {
						t.Fatalf("%s %q: %q", mime, b[:n], out)
					}
				}
			}
		}
	})
}
