package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpproxy"
)

// Upstream is the proxy that a company's network wants for hosts outside, as
// the usual environment variables give it. Services never go through it.
type Upstream struct {
	HTTP    string // HTTP_PROXY
	HTTPS   string // HTTPS_PROXY
	NoProxy string // NO_PROXY
}

// upstream answers which proxy, if any, an external URL goes through.
type upstream struct {
	find func(*url.URL) (*url.URL, error)
	self *ownAddrs
}

func newUpstream(cfg Upstream, self *ownAddrs) (upstream, error) {
	u := upstream{self: self}
	if cfg.HTTP == "" && cfg.HTTPS == "" {
		return u, nil
	}
	for _, v := range []string{cfg.HTTP, cfg.HTTPS} {
		if v == "" {
			continue
		}
		if !strings.Contains(v, "://") {
			v = "http://" + v
		}
		if p, err := url.Parse(v); err != nil || p.Host == "" {
			// The value may hold a password: it is not repeated.
			return u, fmt.Errorf("proxy: the inherited proxy's URL cannot be read")
		}
	}
	c := httpproxy.Config{HTTPProxy: cfg.HTTP, HTTPSProxy: cfg.HTTPS, NoProxy: cfg.NoProxy}
	u.find = c.ProxyFunc()
	return u, nil
}

// forURL is nil for a direct connection. A proxy that is ourselves is none:
// whoever starts us in a colored shell has our address in HTTP_PROXY.
func (u upstream) forURL(target *url.URL) (*url.URL, error) {
	if u.find == nil {
		return nil, nil
	}
	p, err := u.find(target)
	if err != nil || p == nil || u.self.has(p.Scheme, p.Host) {
		return nil, err
	}
	return p, nil
}

func (u upstream) forRequest(r *http.Request) (*url.URL, error) { return u.forURL(r.URL) }

// takes reports whether the absolute form goes to a proxy.
func (u upstream) takes(target *url.URL) bool {
	p, err := u.forURL(target)
	return err == nil && p != nil && (p.Scheme == "http" || p.Scheme == "https")
}

// For is the proxy on the way to a URL, nil for a direct connection.
func (u Upstream) For(target string) (*url.URL, error) {
	parsed, err := url.Parse(target)
	if err != nil {
		return nil, errors.New("proxy: the URL cannot be read")
	}
	up, err := newUpstream(u, &ownAddrs{})
	if err != nil {
		return nil, err
	}
	return up.forURL(parsed)
}

// hostPort adds the scheme's port where there is none.
func hostPort(scheme, hostport string) string {
	host, port := splitHost(hostport)
	if port != "" {
		return hostport
	}
	return net.JoinHostPort(host, defaultPort(scheme))
}

func defaultPort(scheme string) string {
	switch scheme {
	case "https", "wss":
		return "443"
	case "socks5", "socks5h":
		return "1080"
	}
	return "80"
}

// ownAddrs are the addresses that we listen on.
type ownAddrs struct {
	mu   sync.RWMutex
	list []netip.AddrPort
}

func (o *ownAddrs) add(addr string) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.list, ap) {
		o.list = append(o.list, ap)
	}
}

// has reports whether a host, with a port or the scheme's, is one of them under
// any of its names: a loopback address has several, and a wildcard listener
// answers to all.
func (o *ownAddrs) has(scheme, hostport string) bool {
	host, port := splitHost(hostport)
	if port == "" {
		port = defaultPort(scheme)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return false
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, ap := range o.list {
		if uint64(ap.Port()) != n {
			continue
		}
		own := ap.Addr().Unmap()
		if host == "localhost" {
			if own.IsLoopback() || own.IsUnspecified() {
				return true
			}
			continue
		}
		ip, err := netip.ParseAddr(host)
		if err != nil {
			continue
		}
		ip = ip.Unmap()
		if ip == own || ip.IsLoopback() && (own.IsLoopback() || own.IsUnspecified()) || ip.IsUnspecified() {
			return true
		}
	}
	return false
}
