package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ParseService reads the value of -s: NAME=PORT, NAME=HOST:PORT with a loopback
// host, or NAME, whose port lane.yaml knows; Port is then 0.
func ParseService(arg string) (Service, error) {
	name, at, given := strings.Cut(arg, "=")
	if !given {
		if _, err := CheckPort(arg); err == nil {
			return Service{}, fmt.Errorf("%q is a port alone; say NAME=%s", arg, arg)
		}
		if n, p, ok := strings.Cut(arg, ":"); ok && CheckOwnName(n) == nil {
			return Service{}, fmt.Errorf("%q: say %s=%s", arg, n, p)
		}
		if err := CheckOwnName(name); err != nil {
			return Service{}, err
		}
		return Service{Name: name}, nil
	}
	if err := CheckOwnName(name); err != nil {
		return Service{}, fmt.Errorf("%q: %w", arg, err)
	}
	if at == "" {
		return Service{}, fmt.Errorf("%q: there is no port after =", arg)
	}
	host, port := "", at
	if strings.Contains(at, ":") {
		var err error
		if host, port, err = net.SplitHostPort(at); err != nil {
			return Service{}, fmt.Errorf("%q: %q is no PORT and no HOST:PORT", arg, at)
		}
		if !loopback(host) {
			return Service{}, fmt.Errorf("%q: %q is not this machine's loopback; the local process has to listen on 127.0.0.1 or ::1", arg, host)
		}
	}
	p, err := CheckPort(port)
	if err != nil {
		return Service{}, fmt.Errorf("%q: %w", arg, err)
	}
	return Service{Name: name, Host: host, Port: p}, nil
}

// Local is where the local process is, for messages: a port, or host:port.
func (s Service) Local() string {
	if s.Host == "" {
		return strconv.Itoa(s.Port)
	}
	return net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
}

// Addrs are the addresses to dial for the local process, in order. Without a
// host both loopbacks: servers differ in which of the two they listen on.
func (s Service) Addrs() []string {
	port := strconv.Itoa(s.Port)
	switch {
	case s.Host == "" || strings.EqualFold(s.Host, "localhost"):
		return []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	default:
		return []string{net.JoinHostPort(s.Host, port)}
	}
}
