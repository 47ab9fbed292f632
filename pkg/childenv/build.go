package childenv

import (
	"net"
	"slices"
	"strings"
)

// Var is one environment variable.
type Var struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Session is what a child has to know of a session.
type Session struct {
	// Proxy is the coloring proxy's URL. It has a scheme: programs that take the
	// variable for a URL read host:port as a scheme "host".
	Proxy string
	// Lane is the lane's name.
	Lane string
	// Direct are hosts that a child must reach without the proxy, each a host or
	// host:port: the registry.
	Direct []string
	// Trust are the variables that make programs trust the CA by which TLS is
	// opened; none where it is not. See RootsOf for what the user has in them.
	Trust []Var
	// JavaStore is a trust store in PKCS12 for the same; empty: none. A store that
	// the user's own options name stays.
	JavaStore, JavaPassword string
	// Windows says that names of variables are the same in any case, as there,
	// so that there are no lower-case twins.
	Windows bool
}

// loopback is always direct: a child's own databases and test servers are
// there, and no service of the registry is called by such a name.
var loopback = []string{"localhost", "127.0.0.1", "::1"}

// Variables that tell a child about the session.
const (
	// LaneVar holds the lane's name.
	LaneVar = "LANE_TAG"
	// ProxyVar holds the proxy's URL. `lane` itself finds the session by it, and
	// knows by it which HTTP_PROXY is its own and no proxy of a company.
	ProxyVar = "LANE_PROXY"
)

// javaVar is read by every JVM, whatever starts it.
const javaVar = "JAVA_TOOL_OPTIONS"

// Vars are the variables that a session sets or changes over base, an
// environment as of os.Environ, in a fixed order. What the user has in NO_PROXY
// and JAVA_TOOL_OPTIONS stays; doing it twice changes nothing.
//
// An inherited proxy of the user's is replaced, not kept: whoever starts the
// session's own proxy has read it and passes external hosts on to it.
func Vars(base []string, s Session) []Var {
	get := lookup(base, s.Windows)
	noProxy := mergeNoProxy(s, get("NO_PROXY"), get("no_proxy"))
	vars := []Var{
		{"HTTP_PROXY", s.Proxy}, {"HTTPS_PROXY", s.Proxy},
		{"NO_PROXY", noProxy},
		{"grpc_proxy", s.Proxy}, // C-core and its languages prefer it to http_proxy
		{"NODE_USE_ENV_PROXY", "1"},
		{javaVar, mergeJava(get(javaVar), s, noProxy)},
		{LaneVar, s.Lane}, {ProxyVar, s.Proxy},
	}
	vars = append(vars, s.Trust...)
	if !s.Windows {
		// curl reads http_proxy in lower case only; others read either.
		vars = slices.Insert(vars, 3, Var{"http_proxy", s.Proxy}, Var{"https_proxy", s.Proxy}, Var{"no_proxy", noProxy})
	}
	return vars
}

// Build is base with Vars put in, as for os/exec. ALL_PROXY goes: a client that
// knows it would use it for what is excluded here, or past the session's proxy.
func Build(base []string, s Session) []string {
	vars := Vars(base, s)
	out := make([]string, 0, len(base)+len(vars))
	for _, kv := range base {
		name, _, _ := cutVar(kv)
		if slices.ContainsFunc(vars, func(v Var) bool { return sameName(v.Name, name, s.Windows) }) ||
			sameName(name, "ALL_PROXY", true) {
			continue
		}
		out = append(out, kv)
	}
	for _, v := range vars {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// cutVar splits NAME=VALUE. Windows has hidden variables whose name begins with
// an equals sign, such as =C:.
func cutVar(kv string) (name, value string, ok bool) {
	if kv == "" {
		return "", "", false
	}
	i := strings.IndexByte(kv[1:], '=')
	if i < 0 {
		return kv, "", false
	}
	return kv[:i+1], kv[i+2:], true
}

func sameName(a, b string, fold bool) bool {
	if fold {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// lookup reads base; of a variable that is there twice the last one holds, as
// in os/exec.
func lookup(base []string, fold bool) func(string) string {
	return func(want string) string {
		for i := len(base) - 1; i >= 0; i-- {
			if name, v, ok := cutVar(base[i]); ok && sameName(name, want, fold) {
				return v
			}
		}
		return ""
	}
}

// mergeNoProxy is what the user excludes, then loopback, then the session's
// direct hosts, each once. Clients differ in whether a port is understood, so
// that a host is named without one.
func mergeNoProxy(s Session, given ...string) string {
	var out []string
	add := func(e string) {
		e = strings.TrimSpace(e)
		// * would send every call past the proxy, and the lane with it.
		if e != "" && e != "*" && !slices.ContainsFunc(out, func(have string) bool { return strings.EqualFold(have, e) }) {
			out = append(out, e)
		}
	}
	for _, g := range given {
		for e := range strings.FieldsFuncSeq(g, func(r rune) bool { return r == ',' || r == ' ' }) {
			add(e)
		}
	}
	for _, h := range loopback {
		add(h)
	}
	for _, h := range s.Direct {
		add(hostOf(h))
	}
	return strings.Join(out, ",")
}

// hostOf is the host in a host, host:port or URL; empty for a unix socket.
func hostOf(s string) string {
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		if scheme == "unix" {
			return ""
		}
		s, _, _ = strings.Cut(rest, "/")
	}
	if host, _, err := net.SplitHostPort(s); err == nil {
		return host
	}
	return strings.Trim(s, "[]")
}

// Inherited is the proxy that an environment asks for, for calls to external
// hosts: HTTP_PROXY, HTTPS_PROXY and NO_PROXY or their lower-case twins. A proxy
// that is a session's own (LANE_PROXY, or one of own) counts as none: a shell
// that has evaluated `lane env` would make the next session call itself.
func Inherited(base []string, windows bool, own ...string) (httpProxy, httpsProxy, noProxy string) {
	get := lookup(base, windows)
	either := func(name string) string {
		if v := get(name); v != "" {
			return v
		}
		return get(strings.ToLower(name))
	}
	own = append(slices.Clone(own), get(ProxyVar))
	theirs := func(v string) string {
		if slices.ContainsFunc(own, func(o string) bool { return o != "" && sameProxy(o, v) }) {
			return ""
		}
		return v
	}
	return theirs(either("HTTP_PROXY")), theirs(either("HTTPS_PROXY")), either("NO_PROXY")
}

// sameProxy compares two proxies' addresses; scheme and user aside.
func sameProxy(a, b string) bool {
	bare := func(s string) string {
		if _, rest, ok := strings.Cut(s, "://"); ok {
			s = rest
		}
		s, _, _ = strings.Cut(s, "/")
		if i := strings.LastIndexByte(s, '@'); i >= 0 {
			s = s[i+1:]
		}
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			return strings.ToLower(s)
		}
		if strings.EqualFold(host, "localhost") || host == "::1" {
			host = "127.0.0.1"
		}
		return net.JoinHostPort(strings.ToLower(host), port)
	}
	return bare(a) == bare(b)
}
