package traffic

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"lane/pkg/lane"
)

// CurlOptions say by which way a curl line sends its request.
type CurlOptions struct {
	Proxy   string // the session's coloring proxy; empty: none
	CA      string // path of a certificate for https; empty: curl's own
	Secrets bool   // write them as they were; otherwise they are masked
}

// NoCurlError says why an exchange cannot be written as a curl line.
type NoCurlError struct{ Why string }

func (e *NoCurlError) Error() string { return e.Why }

// Repeatable says whether an exchange's request can be sent again as it was: nil,
// or the reason against it.
func Repeatable(e *Exchange) error {
	no := func(why string) error { return &NoCurlError{why} }
	switch {
	case e.Method == "CONNECT":
		return no("a tunnel shows no request")
	case e.Proto == "ws" || e.Proto == "upgrade":
		return no("the connection switched to another protocol")
	case strings.HasPrefix(strings.ToLower(e.ReqHeader.Get("Content-Type")), "application/grpc"):
		return no("curl speaks no gRPC")
	case !strings.HasPrefix(e.URL, "http://") && !strings.HasPrefix(e.URL, "https://"):
		return no("its URL is not known")
	case strings.HasSuffix(e.URL, "…"):
		return no("its URL was too long to be kept")
	case e.ReqHeader.Cut():
		return no("its head was too long to be kept")
	case e.ReqSize > 0 && e.ReqBody == nil:
		return no("its body was not kept; a session with --bodies keeps them")
	case e.ReqBody != nil && (e.ReqBody.Cut || int64(len(e.ReqBody.Bytes)) != e.ReqSize):
		return no("its body was too long to be kept")
	}
	return nil
}

// own says that a field belongs to one connection, to one hop, or to the length of
// a body, and is no part of what was asked.
func own(name string) bool {
	switch strings.ToLower(name) {
	case "connection", "proxy-connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length",
		"expect", "host", "proxy-authorization", lane.HeaderHops, lane.HeaderGuard, lane.HeaderVia:
		return true
	}
	return false
}

// AskedFields are the fields of a request that are to be sent again through a
// session's proxy: none that belongs to one connection or one hop. Secrets are in
// it. What came to a guard without a tag says so: the proxy would put one on.
func AskedFields(e *Exchange) []Field {
	out := slices.DeleteFunc(e.ReqHeader.Raw(), func(f Field) bool { return own(f.Name) || !fieldName(f.Name) })
	if e.Front == FrontGuard && e.Tag == "" {
		out = append(out, Field{lane.HeaderTag, lane.BaselineTag})
	}
	return out
}

// AskedURL is the URL by which the request reaches the same service through a
// session's proxy: what came to a guard was asked by the guard's address.
func AskedURL(e *Exchange) string {
	scheme, rest, ok := strings.Cut(e.URL, "://")
	if !ok {
		return e.URL
	}
	host, path := rest, ""
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		host, path = rest[:at], rest[at:]
	} else if e.Method == "OPTIONS" {
		host = strings.TrimSuffix(rest, "*") // asked of the whole server: a URL without a path
	}
	if e.Front == FrontGuard && e.Service != "" {
		host = e.Service
	}
	return scheme + "://" + host + path
}

// TargetOf is what a request with a URL asks its server for, as it stands there: net/url
// would write some characters another way, and curl leaves out what is behind a #. An
// OPTIONS without a path is about the whole server (RFC 9112, 3.2.4).
func TargetOf(method, url string) string {
	_, rest, _ := strings.Cut(url, "://")
	rest = strings.ReplaceAll(rest, " ", "%20") // HTTP/2 lets one through, and a line of HTTP/1 ends there
	at := strings.IndexAny(rest, "/?#")
	switch {
	case at < 0 && method == "OPTIONS":
		return "*"
	case at < 0:
		return "/"
	case rest[at] != '/':
		return "/" + rest[at:]
	}
	return rest[at:]
}

// Curl is a line for a POSIX shell, and for fish, that sends an exchange's request
// again: the same method, URL, fields and body, byte for byte, when its secrets are not
// masked. A body that is no text goes through printf. One that is compressed and has
// secrets is written masked, and not compressed. Characters beyond ASCII in a
// URL, which none may have (RFC 3986), curl itself writes as escapes.
func Curl(e *Exchange, o CurlOptions) (string, error) {
	if err := Repeatable(e); err != nil {
		return "", err
	}
	url := AskedURL(e)
	if !o.Secrets {
		url = MaskURL(url)
	}
	// -g and --path-as-is: curl must not read brackets and dots its own way.
	args := []string{"curl", "-g", "--path-as-is"}
	add := func(words ...string) {
		for _, w := range words {
			args = append(args, ShellWord(w))
		}
	}
	if o.Proxy != "" {
		add("-x", o.Proxy, "--noproxy", "")
	}
	if o.CA != "" && strings.HasPrefix(url, "https://") {
		add("--cacert", o.CA)
	}
	var body []byte
	coded := true // the body is as it was compressed
	if e.ReqBody != nil {
		body = e.ReqBody.Bytes
	}
	if len(body) > 0 && !o.Secrets {
		s := Show(e.ReqBody, e.ReqHeader)
		switch {
		case s.Left != "":
			return "", &NoCurlError{"of its body, " + s.Left}
		case s.Masked && s.Charset != "":
			return "", &NoCurlError{"its body has secrets, and is no UTF-8"}
		case s.Masked && s.Cut:
			return "", &NoCurlError{"its body has secrets, and is too long to be written in clear"}
		case s.Masked:
			body, coded = s.Bytes, s.Coding == ""
		}
	}
	switch {
	case e.Method == "HEAD":
		add("-I")
	case e.Method == "GET" && len(body) == 0:
	default:
		add("-X", e.Method)
	}
	has := map[string]bool{}
	for _, f := range AskedFields(e) {
		has[strings.ToLower(f.Name)] = true
		if !coded && strings.EqualFold(f.Name, "Content-Encoding") {
			continue // masked, it stands there in clear
		}
		if !o.Secrets {
			f.Value = MaskHeaderValue(f.Name, f.Value)
		}
		if f.Value == "" {
			add("-H", f.Name+";") // curl's spelling of a field without a value
		} else {
			add("-H", f.Name+": "+f.Value)
		}
	}
	// What curl would add by itself.
	for _, name := range []string{"User-Agent", "Accept", "Content-Type"} {
		if !has[strings.ToLower(name)] && (name != "Content-Type" || len(body) > 0) {
			add("-H", name+":")
		}
	}
	if target := TargetOf(e.Method, url); target == "*" || strings.Contains(target, "#") {
		if o.Proxy != "" && strings.HasPrefix(url, "http://") { // which is asked with the whole URL
			target = url
		}
		add("--request-target", target)
	}
	pipe := ""
	if len(body) > 0 {
		add("-H", "Expect:")
		if shellText(body) {
			add("--data-raw", string(body))
		} else {
			pipe = "printf " + printfWord(body) + " | "
			add("--data-binary", "@-")
		}
	}
	add(url)
	return pipe + strings.Join(args, " "), nil
}

// ShellWord makes one word of s for a POSIX shell, and for fish, in which a backslash
// between quotes is one more escape: it stands outside of them. zsh reads =word as a
// path.
func ShellWord(s string) string {
	if s != "" && s[0] != '=' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,") == "" {
		return s
	}
	var b strings.Builder
	b.WriteByte('\'')
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == '\'' || c == '\\' {
			b.WriteString(`'\` + string(c) + `'`)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// shellText says that bytes can stand between quotes on a line that is pasted:
// control characters would be keys there.
func shellText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if r != '\n' && !printable(r) {
			return false
		}
	}
	return true
}

// printfWord is bytes as the format of printf, of which octal escapes of three
// digits are known to every shell.
func printfWord(b []byte) string {
	var s strings.Builder
	s.WriteByte('\'')
	for _, c := range b {
		switch {
		case c == '%':
			s.WriteString("%%")
		case c >= 0x20 && c < 0x7f && c != '\'' && c != '\\':
			s.WriteByte(c)
		default:
			fmt.Fprintf(&s, `\%03o`, c)
		}
	}
	s.WriteByte('\'')
	return s.String()
}

// fieldName says that a field's name is one that a message may have.
func fieldName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
