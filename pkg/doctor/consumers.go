package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Consumed is one service as the registry has it.
type Consumed struct {
	Service string
	Tags    []string          // of all its instances outside lanes
	Meta    map[string]string // keys that any of them has
	// Services are the names of all services.
	Services []string
	Isolated bool // the lane's instance has a name of its own
	Auto     bool // it gets one as soon as somebody calls who knows no lanes
	Err      error
}

// consumer is a kind of caller that knows no lanes.
type consumer struct {
	name  string
	signs func(Consumed) string // what in the registry points to it; empty: nothing
	does  string
	harm  Level
}

// consumers are those that are known, by what they leave in the registry.
var consumers = []consumer{
	{"Traefik", func(c Consumed) string { return tag(c, "traefik.") },
		"Traefik's provider for Consul takes every instance of the name, the lane's too", Note},
	{"Fabio", func(c Consumed) string { return tag(c, "urlprefix-") },
		"Fabio takes only instances with such tags; the lane's has none, and is left alone", Well},
	{"Spring Cloud Consul", func(c Consumed) string {
		if sign := tag(c, "secure="); sign != "" {
			return sign
		}
		if v, ok := c.Meta["secure"]; ok {
			return "metadata secure=" + v
		}
		return ""
	}, "callers with Spring Cloud Consul take every instance of the name, critical ones too unless they set queryPassing", Note},
	{"Prometheus", func(c Consumed) string { return tag(c, "prometheus") },
		"Prometheus scrapes every instance of the name: the guard answers with the baseline's figures", Note},
	{"Consul's mesh", func(c Consumed) string {
		if name := c.Service + "-sidecar-proxy"; slices.Contains(c.Services, name) {
			return "the service " + name
		}
		return ""
	}, "callers in the mesh reach instances through their sidecar proxies alone: they never reach the lane's", Note},
}

func tag(c Consumed, prefix string) string {
	for _, t := range c.Tags {
		if strings.HasPrefix(strings.ToLower(t), prefix) {
			return "tag " + t
		}
	}
	return ""
}

// Findings of the callers that do not know lanes.
func (c Consumed) Findings() []Finding {
	const check = "consumers"
	if c.Err != nil {
		return Unknown(check, c.Err)
	}
	if c.Isolated {
		return []Finding{{Check: check, Level: Well, What: "the lane's instance has a name of its own, which callers that know no lanes do not ask for", Where: c.Service}}
	}
	bounced := "the guard sends what they call on to the baseline; --register isolated keeps them away"
	if c.Auto {
		bounced = "the guard sends what they call on to the baseline, and the instance moves to a name of its own"
	}
	var out []Finding
	for _, k := range consumers {
		sign := k.signs(c)
		if sign == "" {
			continue
		}
		f := Finding{check, k.harm, k.does, c.Service + ": " + sign, ""}
		if k.harm != Well && k.name != "Consul's mesh" {
			f.Do = bounced
		}
		out = append(out, f)
	}
	return append(out, Finding{check, Note,
		"Consul's DNS, consul-template and clients that ask for the name without a filter get the lane's instance too, as long as it is healthy", c.Service, bounced})
}

// Way is one way of a tagged request to a listener of our own.
type Way struct {
	By   string // "directly", or the proxy
	Err  error
	Sent map[string]string // header -> value
	Got  map[string]string
}

// Findings of a way.
func (w Way) Findings() []Finding {
	const check = "header"
	if w.Err != nil {
		return []Finding{{check, Note, "whether the tag passes cannot be told: " + w.Err.Error(), w.By, ""}}
	}
	var lost []string
	for name, v := range w.Sent {
		switch got := w.Got[name]; {
		case got == "":
			lost = append(lost, name+" is taken off")
		case got != v:
			lost = append(lost, fmt.Sprintf("%s is rewritten to %q", name, got))
		}
	}
	slices.Sort(lost)
	if len(lost) > 0 {
		return []Finding{{check, Wrong, strings.Join(lost, "; "), w.By, "requests that take this way lose their lane: have it let the header through, or set another: preset, header in lane.yaml"}}
	}
	return []Finding{{Check: check, Level: Well, What: "the tag arrives as it was sent", Where: w.By}}
}

// Probe is what the answer to a tagged request told of its tag.
type Probe struct {
	URL, Tag string
	Err      error
	Status   int
	Decision string // X-Lane-Decision
	Echoed   bool   // the answer holds the tag
}

// Findings of the probe.
func (p Probe) Findings() []Finding {
	const check = "header"
	f := Finding{Check: check, Level: Well, Where: p.URL}
	switch {
	case p.Err != nil:
		f.Level, f.What = Wrong, "it does not answer: "+p.Err.Error()
	case strings.Contains(p.Decision+";", "lane="+p.Tag+";"):
		f.What = "the tag arrives: " + p.Decision
	case p.Echoed:
		f.What = "the tag arrives: the answer holds it"
	case p.Decision != "":
		f.Level, f.What = Wrong, "something on the way takes the tag off: what routes there decided "+p.Decision
		f.Do = "ask along the way who passes on only headers that he knows; a gateway takes tags from clients that it trusts alone"
	default:
		f.Level = Note
		f.What = fmt.Sprintf("the answer (%d) does not tell whether the tag arrived: nothing there routes by lanes, or shows what it got", p.Status)
		f.Do = "probe a URL behind a gateway or a sidecar, or one that answers with the headers that it got"
	}
	return []Finding{f}
}
