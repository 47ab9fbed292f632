package har

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"lane/pkg/traffic"
)

// cookie is a cookie of a request, or one that a response sets. Its value is masked as
// that of the header is: all of it is a secret.
type cookie struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Path     string `json:"path,omitempty"`
	Domain   string `json:"domain,omitempty"`
	Expires  string `json:"expires,omitempty"`
	HTTPOnly bool   `json:"httpOnly,omitempty"`
	Secure   bool   `json:"secure,omitempty"`
}

// cookies are those of a head's fields of a name, Cookie or Set-Cookie; the
// viewers' lists of cookies are made from these and not from the fields.
func cookies(h traffic.Head, field string) []cookie {
	out := []cookie{}
	for _, f := range h.Fields() {
		if !strings.EqualFold(f.Name, field) {
			continue
		}
		first := true
		for part := range strings.SplitSeq(f.Value, ";") {
			name, value, named := strings.Cut(strings.TrimSpace(part), "=")
			switch {
			case !first && field != "Cookie":
				out[len(out)-1].set(name, value)
			case named:
				out = append(out, cookie{Name: clean(name), Value: clean(value)})
			default: // a value without a name
				out = append(out, cookie{Value: clean(name)})
			}
			first = false
		}
	}
	return out
}

// set takes an attribute of Set-Cookie. One that cannot be read is left out: the field
// has it.
func (c *cookie) set(name, value string) {
	switch strings.ToLower(name) {
	case "path":
		c.Path = clean(value)
	case "domain":
		c.Domain = clean(value)
	case "httponly":
		c.HTTPOnly = true
	case "secure":
		c.Secure = true
	case "expires":
		if at, err := http.ParseTime(strings.ReplaceAll(value, "-", " ")); err == nil {
			c.Expires = at.UTC().Format(time.RFC3339)
		}
	}
}

// port is that of host:port, empty if it has none.
func port(addr string) string {
	p := addr[strings.LastIndexByte(addr, ':')+1:]
	if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
		return ""
	}
	return p
}
