package rules

import (
	"net/netip"
	"strings"

	"lane/pkg/http1"
	"lane/pkg/lane"
)

// Headers are the header fields of a request.
type Headers interface {
	// Line is the n-th value of that name, from 0. The name is in lower
	// case, the request's may be in any.
	Line(name string, n int) (value string, ok bool)
}

// Request is what the rules look at.
type Request struct {
	Entry  string // the service at which it enters
	Host   string // with or without a port
	Target string // the request target, "/orders?id=7"
	// Tag is what the request's own carriers hold.
	Tag     lane.Tag
	Headers Headers // nil: none
	Remote  netip.Addr
	// Trusted requests come from somebody for whom the caller vouches,
	// whatever the address.
	Trusted bool
}

// Map is headers as net/http has them. Keys match in any case.
type Map map[string][]string

// Line implements Headers.
func (m Map) Line(name string, n int) (string, bool) {
	var first, key string
	found := 0
	for k := range m {
		if len(k) == len(name) && strings.EqualFold(k, name) {
			if found++; found == 1 || k < first {
				first = k
			}
			key = k
		}
	}
	if found == 1 {
		if lines := m[key]; n < len(lines) {
			return lines[n], true
		}
		return "", false
	}
	// Several spellings of one name, which no server makes: in their order.
	for last := ""; found > 0; found-- {
		if n < len(m[first]) {
			return m[first][n], true
		}
		n -= len(m[first])
		last, first = first, ""
		for k := range m {
			if len(k) == len(name) && strings.EqualFold(k, name) && k > last && (first == "" || k < first) {
				first = k
			}
		}
	}
	return "", false
}

// Head is headers as pkg/http1 has them.
type Head http1.Head

// Line implements Headers.
func (h *Head) Line(name string, n int) (string, bool) {
	for i := range h.Fields {
		f := &h.Fields[i]
		if !f.Is(name) {
			continue
		}
		if n == 0 {
			return f.Value, true
		}
		n--
	}
	return "", false
}

var (
	_ Headers = Map(nil)
	_ Headers = (*Head)(nil)
)

// view is a request while it is colored.
type view struct {
	req   *Request
	host  string
	path  string
	loose string // another reading of the path, "" if there is none
	dots  bool   // as of Path
	query string
	// strange requests come from somebody whose identity headers do not
	// count: to the rules they are not there.
	strange bool
}

func newView(r *Request, strange bool) view {
	v := view{req: r, host: hostName(r.Host), strange: strange}
	target := r.Target
	if i := strings.Index(target, "://"); i > 0 && !strings.ContainsAny(target[:i], "/?") { // absolute form, as a proxy is asked
		target = target[i+3:]
		if i = strings.IndexAny(target, "/?"); i < 0 {
			target = "/"
		} else if target = target[i:]; target[0] == '?' {
			v.path = "/"
		}
	}
	path, query, _ := strings.Cut(target, "?")
	if v.path == "" {
		p := ReadPath(path)
		v.path, v.loose, v.dots = p.Text, p.Loose, p.Dots
	}
	v.query = query
	return v
}

// hostName is a host without its port and the root's dot, in lower case.
func hostName(h string) string {
	if i := strings.LastIndexByte(h, ':'); i >= 0 && i > strings.LastIndexByte(h, ']') {
		h = h[:i]
	}
	return strings.ToLower(strings.TrimSuffix(h, "."))
}

// decode decodes percent-encoding, and the plus sign of a query; an incomplete
// sequence stays as it is.
func decode(s string, plus bool) string {
	if plus {
		s = strings.ReplaceAll(s, "+", " ")
	}
	return lane.Unescape(s)
}
