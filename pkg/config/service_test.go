package config

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestParseService(t *testing.T) {
	for arg, want := range map[string]Service{
		"order-service=8080":    {Name: "order-service", Port: 8080},
		"a=127.0.0.1:80":        {Name: "a", Host: "127.0.0.1", Port: 80},
		"a=[::1]:80":            {Name: "a", Host: "::1", Port: 80},
		"a=localhost:65535":     {Name: "a", Host: "localhost", Port: 65535},
		"a=127.9.9.9:1":         {Name: "a", Host: "127.9.9.9", Port: 1},
		"order-service":         {Name: "order-service"},
		"order-service-2=80":    {Name: "order-service-2", Port: 80},
		strings.Repeat("a", 63): {Name: strings.Repeat("a", 63)},
	} {
		if got, err := ParseService(arg); err != nil || got != want {
			t.Errorf("%q: %+v, %v", arg, got, err)
		}
	}
	for arg, want := range map[string]string{
		"":                      "empty",
		"=80":                   "empty",
		"Order-Service=80":      "lower-case",
		"order_service=80":      "lower-case",
		"order.service=80":      "lower-case",
		"a=":                    "no port after =",
		"8080":                  "say NAME=8080",
		"a:8080":                "say a=8080",
		"a=http":                "no port number",
		"a=0":                   "not between 1 and 65535",
		"a=65536":               "not between 1 and 65535",
		"a=-1":                  "not between",
		"a=+80":                 "no port number",
		"a= 80":                 "no port number",
		"a=8080=1":              "no port number",
		"a=10.0.0.1:80":         "loopback",
		"a=0.0.0.0:80":          "loopback",
		"a=example.com:80":      "loopback",
		"a=:80":                 "loopback",
		"a=::1:80":              "no PORT and no HOST:PORT",
		"a=[::1%lo]:80":         "loopback",
		"a=http://127.0.0.1:80": "no PORT and no HOST:PORT",
		"a/b=80":                "letters, digits",
		"-a=80":                 "letters, digits",
		"a b":                   "letters, digits",
		strings.Repeat("a", 64): "longer than 63",
	} {
		if got, err := ParseService(arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %s", arg, got, err, want)
		}
	}
}

func TestAddrs(t *testing.T) {
	for arg, want := range map[string][]string{
		"a=80":           {"127.0.0.1:80", "[::1]:80"},
		"a=localhost:80": {"127.0.0.1:80", "[::1]:80"},
		"a=[::1]:80":     {"[::1]:80"},
		"a=127.0.0.1:80": {"127.0.0.1:80"},
	} {
		s, err := ParseService(arg)
		if err != nil || !slices.Equal(s.Addrs(), want) {
			t.Errorf("%s: %q, %v", arg, s.Addrs(), err)
		}
	}
}

func FuzzParseService(f *testing.F) {
	for _, s := range []string{"a=80", "a", "a=[::1]:80", "a=10.0.0.1:80", "=", "a=%:1", "8080"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		s, err := ParseService(arg)
		if err != nil {
			if s != (Service{}) {
				t.Fatalf("%q: an error and a service: %+v", arg, s)
			}
			return
		}
		if CheckServiceName(s.Name) != nil || s.Port < 0 || s.Port > 65535 {
			t.Fatalf("%q: %+v", arg, s)
		}
		if s.Port == 0 {
			if arg != s.Name {
				t.Fatalf("%q: no port: %+v", arg, s)
			}
			return
		}
		// Only this machine is ever dialled.
		for _, a := range s.Addrs() {
			host, port, err := net.SplitHostPort(a)
			if err != nil || port != strconv.Itoa(s.Port) {
				t.Fatalf("%q: address %q", arg, a)
			}
			if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
				t.Fatalf("%q: address %q is no loopback", arg, a)
			}
		}
		again, err := ParseService(s.Name + "=" + s.Local())
		if err != nil || again != s {
			t.Fatalf("%q: %+v comes back as %+v, %v", arg, s, again, err)
		}
	})
}
