package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"

	"lane/pkg/lane"
)

// Names says which service a request's host names. It looks at the host alone,
// never at a URL's text, and never asks anybody: the same host and catalog give
// the same answer.
type Names struct {
	hosts      map[string]string
	colored    []string
	datacenter string
}

// NamesConfig is what a user may say about names.
type NamesConfig struct {
	// Hosts are more names for services: exact host to service.
	Hosts map[string]string
	// Colored are globs of hosts outside the registry that may see the tag.
	Colored []string
	// Datacenter is the registry's; name.service.<other>.consul is then no
	// service of it. Empty accepts every datacenter's name.
	Datacenter string
}

// NewNames checks the configuration.
func NewNames(cfg NamesConfig) (*Names, error) {
	n := &Names{hosts: make(map[string]string, len(cfg.Hosts)), datacenter: strings.ToLower(cfg.Datacenter)}
	for h, s := range cfg.Hosts {
		host, _ := splitHost(h)
		if host == "" || s == "" {
			return nil, fmt.Errorf("hosts: %q: want a host and a service", h)
		}
		n.hosts[host] = s
	}
	for _, g := range cfg.Colored {
		g = strings.ToLower(g)
		if _, err := path.Match(g, "a"); err != nil || g == "" {
			return nil, fmt.Errorf("colored: %q is no glob", g)
		}
		n.colored = append(n.colored, g)
	}
	return n, nil
}

// Place is what a host names.
type Place struct {
	// Service is empty for an external host.
	Service string
	// Bare is set for a name without a dot, which only looks like a service's: the
	// registry has to know it, otherwise it is any host of the local network.
	Bare bool
	// Labelled is set for LABEL.SERVICE.localhost, which is Bare too.
	Labelled bool
}

// Classify says what host (with or without a port) names, given a catalog.
func (n *Names) Classify(hostport string, c *lane.Catalog) Place {
	host, port := splitHost(hostport)
	if s, ok := n.hosts[host]; ok {
		return Place{Service: s}
	}
	if s, ok := serviceAt(host, port, c); ok {
		return Place{Service: s}
	}
	if host == "" || host == "localhost" {
		return Place{}
	}
	if strings.IndexByte(host, '.') < 0 {
		return Place{Service: named(host), Bare: true}
	}
	if s, ok := labelled(host); ok {
		return Place{Service: s, Bare: true, Labelled: true}
	}
	if rest, ok := strings.CutSuffix(host, ".svc.cluster.local"); ok {
		first, _, _ := strings.Cut(rest, ".")
		return Place{Service: named(first)}
	}
	if rest, ok := strings.CutSuffix(host, ".consul"); ok {
		return Place{Service: named(n.consul(rest))}
	}
	return Place{}
}

// named is s if a service can have that name, else "": an IPv6 address, for one,
// has no dot either.
func named(s string) string {
	if len(s) > 128 {
		return ""
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return ""
		}
	}
	return s
}

// consul reads what stands before .consul: name.service, or name.service.<dc>;
// Consul's DNS also allows a tag before the name.
func (n *Names) consul(rest string) string {
	labels := strings.Split(rest, ".")
	last := len(labels) - 1
	if last >= 2 && labels[last] != "service" {
		if n.datacenter != "" && labels[last] != n.datacenter {
			return ""
		}
		last--
	}
	if last < 1 || labels[last] != "service" {
		return ""
	}
	return labels[last-1]
}

// Colored reports whether an external host may see the tag.
func (n *Names) Colored(hostport string) bool {
	if len(n.colored) == 0 {
		return false
	}
	host, _ := splitHost(hostport)
	for _, g := range n.colored {
		if ok, _ := path.Match(g, host); ok {
			return true
		}
	}
	return false
}

// serviceAt finds the service of a registered instance's own address.
func serviceAt(host, port string, c *lane.Catalog) (string, bool) {
	if port == "" {
		port = "80"
	}
	if host == "localhost" {
		if s, ok := c.ServiceAt("127.0.0.1:" + port); ok {
			return s, true
		}
		return c.ServiceAt("[::1]:" + port)
	}
	// A registered address may be a host's name too, but never one without a
	// dot: that is a service's own name, and its port is ignored.
	if !strings.ContainsAny(host, ".:") {
		return "", false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return c.ServiceAt(net.JoinHostPort(host, port))
}

// splitHost parts host and port, in lower case, without brackets and without
// the dot that ends a full name.
func splitHost(hostport string) (host, port string) {
	host = hostport
	if i := strings.LastIndexByte(hostport, ':'); i >= 0 && strings.IndexByte(hostport[i:], ']') < 0 {
		if strings.IndexByte(hostport[:i], ':') < 0 || hostport[0] == '[' {
			host, port = hostport[:i], hostport[i+1:]
		}
	}
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	return strings.TrimSuffix(strings.ToLower(host), "."), port
}
