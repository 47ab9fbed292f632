package doctor

import (
	"fmt"
	"net/url"
	"strings"
)

// Proxies is what the environment says of proxies.
type Proxies struct {
	Get func(string) string // a variable
	// Fold says that the system does not tell upper from lower case in their names.
	Fold bool
	// Sessions are the proxies of this machine's sessions, host:port, and their lanes.
	Sessions map[string]string
	Bypassed []string // services that NO_PROXY sends past the proxy
}

// Findings of the variables.
func (p Proxies) Findings() []Finding {
	var out []Finding
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		upper, lower := p.Get(name), p.Get(strings.ToLower(name))
		if upper != "" && lower != "" && upper != lower && !p.Fold {
			out = append(out, p.note(name, "it and "+strings.ToLower(name)+" name different proxies: programs differ in which of them they take", "set both to the same"))
		}
		if lower == upper || p.Fold {
			lower = ""
		}
		for _, v := range []struct{ name, value string }{{name, upper}, {strings.ToLower(name), lower}} {
			if v.value != "" {
				out = append(out, p.variable(v.name, v.value)...)
			}
		}
	}
	if p.Get("ALL_PROXY") != "" || p.Get("all_proxy") != "" {
		out = append(out, p.note("ALL_PROXY", "programs that read it would go past a lane: lane takes it from those that it starts", ""))
	}
	return append(out, p.exclusions()...)
}

func (p Proxies) note(name, what, do string) Finding { return Finding{"proxies", Note, what, name, do} }

func (p Proxies) variable(name, value string) []Finding {
	wrong := func(what, do string) []Finding { return []Finding{{"proxies", Wrong, what, name, do}} }
	if !strings.Contains(value, "://") {
		return append(p.variable(name, "http://"+value),
			p.note(name, "it has no scheme: some programs take the host for one", "write http:// before it"))
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" {
		return wrong("it is no URL of a proxy", "write http://HOST:PORT, or unset it") // the value may hold a password
	}
	at := hostPort(u)
	lane, live := p.Sessions[at]
	switch told := p.Get("LANE_PROXY"); {
	case live:
		return []Finding{{"proxies", Well, fmt.Sprintf("it is the proxy of the session of lane %s: what this shell starts calls in that lane", lane), name, ""}}
	case told != "" && sameAddress(told, at):
		return wrong(fmt.Sprintf("it is the proxy of a session that has ended (%s): every call of this shell fails", at),
			"start a session and eval \"$(lane env)\", or unset it and LANE_PROXY")
	}
	return []Finding{p.note(name, "calls of a session to hosts outside go on through "+at+"; calls to services, and to the registry, do not", "")}
}

// exclusions are the findings about what goes past the proxies.
func (p Proxies) exclusions() []Finding {
	no := p.Get("NO_PROXY")
	name := "NO_PROXY"
	if no == "" && !p.Fold {
		no, name = p.Get("no_proxy"), "no_proxy"
	}
	var out []Finding
	if strings.TrimSpace(no) == "*" {
		out = append(out, p.note(name, "* sends everything past every proxy: lane takes it from what it starts", ""))
	}
	for _, s := range p.Bypassed {
		out = append(out, Finding{"proxies", Wrong, "programs call " + s + " past the lane, because of what it excludes: untagged", name, "take the entry out that matches " + s})
	}
	if out == nil && p.Get("HTTP_PROXY") == "" && p.Get("http_proxy") == "" && p.Get("HTTPS_PROXY") == "" && p.Get("https_proxy") == "" {
		out = []Finding{{Check: "proxies", Level: Well, What: "the environment names no proxy"}}
	}
	return out
}

func hostPort(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if host == "localhost" || host == "::1" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return host + ":" + port
}

func sameAddress(a, at string) bool {
	u, err := url.Parse(a)
	return err == nil && hostPort(u) == at
}

// At is the address of a proxy's URL as Sessions has it.
func At(proxy string) string {
	u, err := url.Parse(proxy)
	if err != nil {
		return proxy
	}
	return hostPort(u)
}
