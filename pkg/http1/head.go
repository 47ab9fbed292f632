package http1

import (
	"slices"
	"strings"
)

// Error is a message that is not HTTP/1.1, or that two programs could read in
// two ways.
type Error struct {
	// Status is what a server answers: 400, 431, 501 or 505.
	Status int
	Why    string
}

func (e *Error) Error() string { return e.Why }

func bad(why string) *Error { return &Error{Status: 400, Why: why} }

// Field is one line of a head.
type Field struct {
	Name, Value string // the value without white space around it
	Line        string // both, as they came, without the line's end
}

// Is reports whether the field has this name, in any letter case.
func (f *Field) Is(name string) bool {
	return len(f.Name) == len(name) && strings.EqualFold(f.Name, name)
}

// Head is what requests and responses have in common. Its strings are parts of
// the text that it was parsed from.
type Head struct {
	Minor  int // HTTP/1.Minor
	Fields []Field
	// Length is the body's length by Content-Length, -1 without one.
	Length  int64
	Chunked bool
	// Options are the options of all Connection fields.
	Options []string
	Close   bool // the option close
	Keep    bool // the option keep-alive
	Switch  bool // the option upgrade
}

// Request is the head of a request.
type Request struct {
	Head
	Method, Target string
	Host           string // of the Host field; "" without one
	Expect         bool   // the caller waits for 100 before it sends the body
}

// Response is the head of a response.
type Response struct {
	Head
	Status int
	Reason string
}

func (h *Head) reset() {
	h.Minor, h.Length, h.Chunked, h.Close, h.Keep, h.Switch = 0, -1, false, false, false, false
	h.Fields, h.Options = h.Fields[:0], h.Options[:0]
}

// ParseRequest reads a head that Reader.Head gave into r, whose memory is used
// again. It is strict: RFC 9112 lets a server mend some of what is refused here,
// and each of these mendings has let a second request through that only one of
// two programs saw.
func ParseRequest(head string, r *Request) error {
	r.reset()
	r.Host, r.Expect = "", false
	line, rest, err := cutLine(head, false)
	if err != nil {
		return err
	}
	if err := r.requestLine(line); err != nil {
		return err
	}
	if err := r.fields(rest, false); err != nil {
		return err
	}
	hosts, lengths, codings := 0, 0, 0
	for i := range r.Fields {
		f := &r.Fields[i]
		switch {
		case f.Is("Host"):
			if hosts++; hosts > 1 {
				return bad("two Host fields")
			}
			if !validHost(f.Value) {
				return bad("the Host field is no host")
			}
			r.Host = f.Value
		case f.Is("Content-Length"):
			if lengths++; lengths > 1 {
				return bad("two Content-Length fields")
			}
			n, ok := digits(f.Value)
			if !ok {
				return bad("the Content-Length is no number")
			}
			r.Length = n
		case f.Is("Transfer-Encoding"):
			if codings++; codings > 1 {
				return bad("two Transfer-Encoding fields")
			}
			if !strings.EqualFold(f.Value, "chunked") {
				return &Error{Status: 501, Why: "the Transfer-Encoding is not chunked"}
			}
			r.Chunked = true
		case f.Is("Expect"):
			if !strings.EqualFold(f.Value, "100-continue") {
				return &Error{Status: 417, Why: "the expectation is not 100-continue"}
			}
			r.Expect = r.Minor > 0
		}
	}
	switch {
	case r.Chunked && r.Length >= 0:
		return bad("both Content-Length and Transfer-Encoding")
	case r.Chunked && r.Minor == 0:
		return bad("Transfer-Encoding in HTTP/1.0")
	case hosts == 0 && r.Minor > 0:
		return bad("no Host field")
	}
	return nil
}

func (r *Request) requestLine(line string) error {
	method, rest, _ := strings.Cut(line, " ")
	target, version, ok := strings.Cut(rest, " ")
	if !ok || !isToken(method) || target == "" {
		return bad("the request line is not METHOD TARGET VERSION")
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f {
			return bad("a control character in the request target")
		}
	}
	if method == "CONNECT" && !authority(target) {
		return bad("a CONNECT names a host and a port, and this one names something else")
	}
	minor, err := version1(version)
	r.Method, r.Target, r.Minor = method, target, minor
	return err
}

// authority reports whether a target can be the one of a CONNECT (RFC 9112, 3.2.3). A
// server that opens no tunnels, and a proxy before it, could each take a path for
// something else.
func authority(target string) bool {
	return target != "*" && !strings.ContainsAny(target, "/?#@\\")
}

// version1 reads HTTP/1.0 and HTTP/1.1.
func version1(v string) (minor int, err error) {
	switch v {
	case "HTTP/1.1":
		return 1, nil
	case "HTTP/1.0":
		return 0, nil
	}
	if len(v) == len("HTTP/1.1") && strings.HasPrefix(v, "HTTP/") && v[6] == '.' {
		return 0, &Error{Status: 505, Why: "not HTTP/1.0 or HTTP/1.1"}
	}
	return 0, bad("no HTTP version")
}

// ParseResponse reads a head that Reader.Head gave into r, whose memory is used
// again. It takes what servers really send, bare line feeds and folded lines
// among it, and gives what it took in its strict form.
func ParseResponse(head string, r *Response) error {
	r.reset()
	line, rest, err := cutLine(head, true)
	if err != nil {
		return err
	}
	version, after, _ := strings.Cut(line, " ")
	if r.Minor, err = version1(version); err != nil {
		return err
	}
	code, reason, _ := strings.Cut(after, " ")
	n, ok := digits(code)
	if !ok || len(code) != 3 || n < 100 {
		return bad("the status is no number")
	}
	if !validValue(reason) {
		return bad("a control character in the status line")
	}
	r.Status, r.Reason = int(n), reason
	if err := r.fields(rest, true); err != nil {
		return err
	}
	for i := 0; i < len(r.Fields); i++ {
		f := &r.Fields[i]
		switch {
		case f.Is("Content-Length"):
			n, ok := digits(f.Value)
			switch {
			case !ok || r.Length >= 0 && r.Length != n:
				return bad("the Content-Length is no number, or two")
			case r.Length == n: // said twice
				r.Fields = slices.Delete(r.Fields, i, i+1)
				i--
			}
			r.Length = n
		case f.Is("Transfer-Encoding"):
			if r.Chunked || !strings.EqualFold(f.Value, "chunked") {
				return bad("the Transfer-Encoding is not chunked")
			}
			r.Chunked = true
		}
	}
	if r.Chunked {
		// It overrides, but whoever says both, or says it in HTTP/1.0, is not to be
		// asked again on this connection (RFC 9112, 6.1 and 6.3).
		if r.Length >= 0 || r.Minor == 0 {
			r.Close, r.Keep = true, false
		}
		r.Length = -1
	}
	return nil
}

// Limits of a head's parts, beside that of its size: what is done with each of
// them takes time, and some of it once for each of the others.
const (
	maxFields  = 2000
	maxOptions = 100
)

// fields reads the lines of a head up to the empty one.
func (h *Head) fields(text string, lenient bool) error {
	for {
		line, rest, err := cutLine(text, lenient)
		if err != nil {
			return err
		}
		if line == "" {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			if !lenient || len(h.Fields) == 0 {
				return bad("a folded line")
			}
			if !validValue(line) {
				return bad("a control character in a folded line")
			}
			last := &h.Fields[len(h.Fields)-1]
			last.Value = strings.Trim(last.Value+" "+strings.Trim(line, " \t"), " ")
			last.Line = last.Name + ": " + last.Value
			text = rest
			continue
		}
		f, err := parseField(line)
		if err != nil {
			return err
		}
		if len(h.Fields) == maxFields {
			return &Error{Status: 431, Why: "the head has too many fields"}
		}
		h.Fields = append(h.Fields, f)
		text = rest
	}
	for i := range h.Fields {
		if h.Fields[i].Is("Connection") {
			h.options(h.Fields[i].Value)
		}
	}
	if len(h.Options) > maxOptions {
		return &Error{Status: 431, Why: "too many options in Connection"}
	}
	return nil
}

func parseField(line string) (Field, error) {
	i := strings.IndexByte(line, ':')
	if i < 0 {
		return Field{}, bad("a line of the head without a colon")
	}
	f := Field{Name: line[:i], Value: strings.Trim(line[i+1:], " \t"), Line: line}
	if !isToken(f.Name) {
		return f, bad("a field's name is no name")
	}
	if !validValue(f.Value) {
		return f, bad("a control character in the field " + f.Name)
	}
	return f, nil
}

func (h *Head) options(list string) {
	for o := range strings.SplitSeq(list, ",") {
		switch o = strings.Trim(o, " \t"); {
		case o == "":
			continue
		case strings.EqualFold(o, "close"):
			h.Close = true
		case strings.EqualFold(o, "keep-alive"):
			h.Keep = true
		case strings.EqualFold(o, "upgrade"):
			h.Switch = true
		}
		if h.Options = append(h.Options, o); len(h.Options) > maxOptions {
			return
		}
	}
}

// Named reports whether a Connection field names this one: it ends here (RFC
// 9110, 7.6.1). What says where the message ends, and for whom it is, cannot be
// named away.
func (h *Head) Named(f *Field) bool {
	for _, o := range h.Options {
		if f.Is(o) {
			return !f.Is("Host") && !f.Is("Content-Length") && !f.Is("Transfer-Encoding")
		}
	}
	return false
}

// Get is the value of the first field of that name.
func (h *Head) Get(name string) string {
	for i := range h.Fields {
		if h.Fields[i].Is(name) {
			return h.Fields[i].Value
		}
	}
	return ""
}

// cutLine cuts the first line off. A lenient reader takes a bare line feed for
// an end.
func cutLine(text string, lenient bool) (line, rest string, err error) {
	i := strings.IndexByte(text, '\n')
	if i < 0 {
		return "", "", bad("the head has no end")
	}
	line, rest = text[:i], text[i+1:]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1], rest, nil
	}
	if !lenient {
		return "", "", bad("a line feed without a carriage return")
	}
	return line, rest, nil
}

// digits reads a decimal number of at most 18 digits.
func digits(s string) (n int64, ok bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// tokens are the bytes of a token (RFC 9110, 5.6.2).
var tokens = func() (t [256]bool) {
	for _, c := range "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		t[c] = true
	}
	return t
}()

func isToken(s string) bool {
	for i := range len(s) {
		if !tokens[s[i]] {
			return false
		}
	}
	return s != ""
}

// validValue reports whether a field's value has no control character but tabs
// (RFC 9110, 5.5).
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// validHost is lenient about names: it keeps out what has another meaning
// elsewhere in a head.
func validHost(s string) bool {
	return !strings.ContainsAny(s, " \t,/?#@\\\"<>")
}
