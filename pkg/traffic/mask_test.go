package traffic

import (
	"encoding/base64"
	"testing"
)

const formType = "application/x-www-form-urlencoded"

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func maskSent(contentType, body string) string {
	return string(Show(&Body{Bytes: []byte(body)}, HeadText("Content-Type: "+contentType+"\r\n")).Bytes)
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
		{"multipart/form-data; boundary=b1", part("meta", "\r\nContent-Transfer-Encoding: base64", b64(`{"token":"X"}`)), part("meta", "\r\nContent-Transfer-Encoding: base64", b64(`{"token":"***"}`))},
		{"multipart/form-data; boundary=b1", part("meta", "\r\nContent-Transfer-Encoding: base64", b64(`{"a":"X"}`)), part("meta", "\r\nContent-Transfer-Encoding: base64", b64(`{"a":"X"}`))},
		{"multipart/form-data; boundary=b1", part("meta", "\r\nContent-Transfer-Encoding: base64", "!no base64!"), part("meta", "\r\nContent-Transfer-Encoding: base64", "***")},
		{"multipart/form-data; boundary=b1", part("meta", "\r\nContent-Transfer-Encoding: quoted-printable", "{=22pass=\r\nword=22:=22X=22}"), part("meta", "\r\nContent-Transfer-Encoding: quoted-printable", `{"password":"***"}`)},
		{"multipart/form-data; boundary=b1", part("meta", "\r\nContent-Transfer-Encoding: uuencode", "X"), part("meta", "\r\nContent-Transfer-Encoding: uuencode", "***")},
		{"multipart/mixed; boundary=b1", "token: X\r\n" + part("a", "", "b"), "token: ***\r\n" + part("a", "", "b")},

		{"application/xml", `<u><password>X</password><name>n</name></u>`, `<u><password>***</password><name>n</name></u>`},
		{"application/xml", `<u><ns:Password a="b">X<i>X</i></ns:Password><password/><password></password></u>`, `<u><ns:Password a="b">***</ns:Password><password/><password></password></u>`},
		{"application/xml", `<u><token><token>X</token>X</token><a>b</a></u>`, `<u><token>***</token><a>b</a></u>`},
		{"application/xml", `<u password="X" a='b' ns:token='X'/>`, `<u password="***" a='b' ns:token='***'/>`},
		{"application/xml", `<add key="password" value="X"/><add key="user" value="n"/>`, `<add key="password" value="***"/><add key="user" value="n"/>`},
		{"application/xml", `<entry name="password">X</entry><entry name="user">n</entry>`, `<entry name="password">***</entry><entry name="user">n</entry>`},
		{"application/xml", `<a><![CDATA[{"token":"X"}]]></a><!-- password: X -->`, `<a><![CDATA[{"token":"***"}]]></a><!-- password: ***-->`},
		{"application/xml", `<a>&lt;password&gt;X&lt;/password&gt; 1 &gt; 0</a>`, `<a>&lt;password&gt;***&lt;/password&gt; 1 &gt; 0</a>`},
		{"application/xml", `<u><password>X</passw`, `<u><password>***`},
		{"text/html", `<input name=user value=n><input type="password" value="X"><meta name="csrf-token" content="X"><p>n</p>`,
			`<input name=user value=n><input type="password" value="***"><meta name="csrf-token" content="***"><p>n</p>`},
		{"text/html", `<a href="/x?token=X&amp;a=b">n</a><script>var c = {apiKey: 'X', a: 'b'}</script>`, `<a href="/x?token=***&amp;a=b">n</a><script>var c = {apiKey: &#39;***&#39;, a: &#39;b&#39;}</script>`},
		{"application/json", `{"x":"<password>X</password>"}`, `{"x":"<password>***</password>"}`},
		{"application/json", `{"url":"/a?b=1&token=X&c=2"}`, `{"url":"/a?b=1&token=***&c=2"}`},
		{"text/plain", `see <password>X</password> 1 < 2`, `see <password>***</password> 1 < 2`},

		{"application/yaml", "user: n\npassword: X Y # c\nport: 1\n", "user: n\npassword: ***\nport: 1\n"},
		{"application/yaml", "a:\n  - token: X\n    name: n\n  - 'api-key': 'X''Y\n\n     Z'\n    b: c\n", "a:\n  - token: ***\n    name: n\n  - 'api-key': ***\n    b: c\n"},
		{"application/yaml", "secret: |\n  X\n\n  Y\na: b\n", "secret: ***\na: b\n"},
		{"application/yaml", "secrets:\n- X\n- v: Y\na: b\n", "secrets: ***\na: b\n"},
		{"application/yaml", "secret: !!str &x \"X\n Y\"\na: {password: X, b: c}\n", "secret: ***\na: {password: ***, b: c}\n"},
		{"application/yaml", "token:\npassword: null\na: b", "token:\npassword: null\na: b"},
		{"application/yaml", "? password\n: X\n? a\n: b\n", "? password\n: ***\n? a\n: b\n"},
		{"application/yaml", "\"pass\\u0077ord\": X Y\na: b\n", "\"pass\\u0077ord\": ***\na: b\n"},
		{"text/plain", "A=b\nexport DB_PASSWORD=\"X\nY\"\nC=d\n", "A=b\nexport DB_PASSWORD=***\nC=d\n"},
		{"text/plain", "[db]\npassword = X Y\nuser = n\n", "[db]\npassword = ***\nuser = n\n"},
		{"text/plain", "level=info token=X user=n", "level=info token=*** user=n"},
		{"text/plain", "at postgres://u:X@db/x and http://h/?sig=X&a=b", "at postgres://u:***@db/x and http://h/?sig=***&a=b"},
		{"text/plain", "error: invalid token: it has ended", "error: invalid token: it has ended"},
		{"text/plain", "API key: X\nthe secret of life: 42\n", "API key: ***\nthe secret of life: 42\n"},
		{"application/json", `{"error":"invalid token: it has ended","url":"/a?b\u003d1\u0026token\u003dX"}`, `{"error":"invalid token: it has ended","url":"/a?b=1\u0026token=***"}`},
		{"application/json", "{\"name\":\"caf\xe9\",\"password\":\"X\"}", "{\"name\":\"caf\xe9\",\"password\":\"***\"}"},
		{"", "{\"a\":\"\x00\",\"password\":\"X\"}", "{\"a\":\"\x00\",\"password\":\"***\"}"},
		{"application/json", "\xff\xfe{\x00\"\x00s\x00i\x00d\x00\"\x00:\x00\"\x00X\x00\"\x00}\x00", `{"sid":"***"}`},
		{"application/json", `{"env":[{"name":"DB_PASSWORD","value":"X"},{"value":{"v":"X"},"name":"api key"},{"name":"USER","value":"n"}],"value":"n"}`,
			`{"env":[{"name":"DB_PASSWORD","value":"***"},{"value":"***","name":"api key"},{"name":"USER","value":"n"}],"value":"n"}`},
		{"application/yaml", "env:\n- name: DB_PASSWORD\n  value: X\n- name: USER\n  value: n\n- name: 'TOKEN'\n  a: b\n  value: |\n    X\nvalue: n\n",
			"env:\n- name: DB_PASSWORD\n  value: ***\n- name: USER\n  value: n\n- name: 'TOKEN'\n  a: b\n  value: ***\nvalue: n\n"},
		{"application/json", `{"headers":[{"name":"Authorization","value":"X"},{"name":"x-csrftoken","value":"X"},{"name":"Accept","value":"n"}]}`,
			`{"headers":[{"name":"Authorization","value":"***"},{"name":"x-csrftoken","value":"***"},{"name":"Accept","value":"n"}]}`},
		{"application/json", `[{"headerName":"Cookie","headerValue":"X"},{"k":"pwd","v":"X"},{"id":"a","v":"n"}]`, `[{"headerName":"Cookie","headerValue":"***"},{"k":"pwd","v":"***"},{"id":"a","v":"n"}]`},
		{"application/json", `{"grant_type":"authorization_code","code":"X"}`, `{"grant_type":"authorization_code","code":"***"}`},
		{"application/json", `{"code":"EUR","state":"TX"}`, `{"code":"EUR","state":"TX"}`},
		{"application/json", `{"next":"http://h/x?code=X\u0026state=s"}`, `{"next":"http://h/x?code=***\u0026state=s"}`},
		{formType, `grant_type=authorization_code&code=X&redirect_uri=u`, `grant_type=authorization_code&code=***&redirect_uri=u`},
		{formType, `code=EUR&a=b`, `code=EUR&a=b`},
		{"text/plain", "GET /cb?code=X&state=s HTTP/1.1\ncode=EUR a\n", "GET /cb?code=***&state=s HTTP/1.1\ncode=EUR a\n"},
		{"application/xml", `<h><header><name>Authorization</name><value>X</value></header><header><value><s>n</s></value><name>Accept</name></header></h>`,
			`<h><header><name>Authorization</name><value>***</value></header><header><value><s>n</s></value><name>Accept</name></header></h>`},
		{"application/xml", `<p><x:value><s>X</s></x:value><x:name> API key </x:name></p><value>n</value>`, `<p><x:value>***</x:value><x:name> API key </x:name></p><value>n</value>`},
		{"application/xml", `<p><param-name><![CDATA[db.password]]></param-name><br><param-value>X</param-value>`, `<p><param-name><![CDATA[db.password]]></param-name><br><param-value>***</param-value>`},
		{"application/xml", `<dict><key>password</key><string>X</string><key>user</key><string>n</string></dict>`, `<dict><key>***</key><string>***</string><key>***</key><string>n</string></dict>`},
		{"image/png", "\x89PNG\x00password=X", "\x89PNG\x00password=X"}, // a file has no names
	} {
		if got := maskSent(c.mime, c.in); got != c.want {
			t.Errorf("%s %q:\n got %q\nwant %q", c.mime, c.in, got, c.want)
		}
	}
}
