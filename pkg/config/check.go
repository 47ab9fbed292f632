package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lane/pkg/lane"
)

// Limits of the registry, checked here so that a mistake is told before
// anything is registered.
const (
	maxName = 63  // of a service's name
	maxMeta = 512 // of a metadata value, bytes
)

// CheckServiceName says why s cannot be a service's name in the registry.
func CheckServiceName(s string) error {
	if s == "" {
		return errors.New("the service's name is empty")
	}
	if len(s) > maxName {
		return fmt.Errorf("service name %q is longer than %d characters", s, maxName)
	}
	for i, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		inner := i > 0 && i < len(s)-1 && (c == '-' || c == '_' || c == '.')
		if !alnum && !inner {
			return fmt.Errorf("service name %q: letters, digits and inner - _ . only", s)
		}
	}
	return nil
}

// CheckOwnName says why s cannot be the name under which a local process is
// registered: DNS has to find it, so it is a label in lower case. Services that
// are only called may have other names.
func CheckOwnName(s string) error {
	if err := CheckServiceName(s); err != nil {
		return err
	}
	if strings.ToLower(s) != s || strings.ContainsAny(s, "_.") {
		return fmt.Errorf("service name %q: lower-case letters, digits and inner hyphens only, so that DNS finds it", s)
	}
	return nil
}

// CheckPort reads a port, 1 to 65535.
func CheckPort(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || s[0] == '+' {
		return 0, fmt.Errorf("%q is no port number", s)
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("port %d is not between 1 and 65535", n)
	}
	return n, nil
}

// CheckListen says why nobody can listen at v: it is HOST:PORT, or :PORT for every
// address of this machine, and port 0 is any free one.
func CheckListen(v string) error {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		if _, err := CheckPort(v); err == nil {
			return fmt.Errorf("%q has no host; say 127.0.0.1:%s, or :%s for every address of this machine", v, v, v)
		}
		return noHostPort(v)
	}
	if host != "" {
		if _, err := checkHost(host); err != nil {
			return fmt.Errorf("%q: %w", v, err)
		}
	}
	if port == "0" {
		return nil
	}
	if _, err := CheckPort(port); err != nil {
		return fmt.Errorf("%q: %w", v, err)
	}
	return nil
}

// CheckHostPort says why v is no HOST:PORT that somebody can call.
func CheckHostPort(v string) error {
	host, port, err := net.SplitHostPort(v)
	if err != nil || host == "" {
		return noHostPort(v)
	}
	if _, err := checkHost(host); err != nil {
		return fmt.Errorf("%q: %w", v, err)
	}
	if _, err := CheckPort(port); err != nil {
		return fmt.Errorf("%q: %w", v, err)
	}
	return nil
}

func noHostPort(v string) error {
	return fmt.Errorf("%q is no HOST:PORT such as 127.0.0.1:8080 or [::1]:8080", v)
}

// CheckHeaderLine says why v is no NAME: VALUE.
func CheckHeaderLine(v string) error {
	name, value, ok := strings.Cut(v, ":")
	if !ok || !token(strings.TrimSpace(name)) || strings.ContainsAny(value, "\r\n\x00") {
		return fmt.Errorf("%q is not of the form NAME: VALUE", v)
	}
	return nil
}

// token reports whether s can be a header's name (RFC 9110, 5.1).
func token(s string) bool {
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			continue
		}
		return false
	}
	return s != ""
}

// taken are headers with a meaning of their own: a tag in one would break the
// request, or be lost at the next hop.
var taken = map[string]string{
	"authorization": "it holds credentials", "cookie": "it holds credentials", "proxy-authorization": "it holds credentials",
	"host": "it names the server", "content-length": "it frames the message", "transfer-encoding": "it frames the message",
	"content-type": "it describes the body", "connection": "it ends at the next hop", "upgrade": "it ends at the next hop",
	"te": "it ends at the next hop", "trailer": "it ends at the next hop", "keep-alive": "it ends at the next hop",
	"traceparent": "its form is fixed", "tracestate": "its form is fixed",
	"baggage":     "it is a list that others share; say preset: baggage",
	"x-lane-hops": "lane counts hops in it", "x-lane-guard": "lane marks bounces in it",
	"x-lane-decision": "lane answers in it", "x-lane-error": "lane answers in it",
}

func checkHeader(v string) (string, error) {
	h := strings.ToLower(v)
	if !token(h) {
		return "", fmt.Errorf("%q is no header name", v)
	}
	if why, ok := taken[h]; ok {
		return "", fmt.Errorf("%s cannot hold the tag: %s", h, why)
	}
	return h, nil
}

// CheckHost says why v is no host: a name or an address, without a port.
func CheckHost(v string) error {
	_, err := checkHost(v)
	return err
}

// checkHost reads a host name without a port, in lower case.
func checkHost(v string) (string, error) {
	h := strings.ToLower(strings.TrimSuffix(v, "."))
	if h == "" || len(h) > 253 {
		return "", fmt.Errorf("%q is no host name", v)
	}
	if host, _, err := net.SplitHostPort(h); err == nil {
		return "", fmt.Errorf("%q: a host without its port; say %s", v, host)
	}
	if _, err := netip.ParseAddr(h); err == nil {
		return h, nil
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("%q is no host name", v)
		}
	}
	return h, nil
}

// checkHostPattern reads a host, or *.suffix for everything below it.
func checkHostPattern(v string) (string, error) {
	if v == "*" || v == "*." {
		return "", errors.New("* would show the tag to every host outside; name those that may see it")
	}
	suffix, wild := strings.CutPrefix(v, "*.")
	h, err := checkHost(suffix)
	if err != nil {
		return "", err
	}
	if !wild {
		return h, nil
	}
	if !strings.Contains(h, ".") {
		return "", fmt.Errorf("%q would show the tag to everybody under .%s; name a domain", v, h)
	}
	return "*." + h, nil
}

// checkOpened reads a host or a service whose TLS is opened, or *.suffix for every
// host below it. Addresses are none: the CA signs for names alone.
func checkOpened(v string) (string, error) {
	if v == "*" || v == "*." {
		return "", errors.New("* would open the TLS of every host; name those that it is for")
	}
	suffix, wild := strings.CutPrefix(v, "*.")
	h, err := checkHost(suffix)
	if err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(h); err == nil {
		return "", fmt.Errorf("%q is an address; a certificate is made for a name", v)
	}
	if !wild {
		return h, nil
	}
	if !strings.Contains(h, ".") && h != "consul" && h != "localhost" {
		return "", fmt.Errorf("%q would open everything under .%s; name a domain", v, h)
	}
	return "*." + h, nil
}

// checkRelay reads the URL of a relay, and the fingerprint of its certificate that
// may stand behind a #.
func checkRelay(v string) (address, pin string, err error) {
	if v == NoRelay {
		return "", "", nil
	}
	v, pin, _ = strings.Cut(v, "#")
	u, err := url.Parse(v)
	switch {
	case err != nil, u.Hostname() == "", u.Opaque != "":
		return "", "", errors.New("the relay is no URL such as wss://relay.test.example") // it may hold a password: not shown
	case u.User != nil, u.RawQuery != "":
		return "", "", errors.New("no user, password or query here: a token in a URL is in every log; use relay_token_file or LANE_RELAY_TOKEN")
	case u.Scheme != "wss":
		return "", "", fmt.Errorf("%q: the scheme is not wss", u.Scheme+"://"+u.Host)
	}
	if pin != "" {
		pin, err = checkFingerprint(pin)
	}
	return u.String(), pin, err
}

// checkFingerprint holds a fingerprint to the form that lane relay prints.
func checkFingerprint(v string) (string, error) {
	v = strings.ToLower(v)
	text, ok := strings.CutPrefix(v, "sha256:")
	if raw, err := hex.DecodeString(text); !ok || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%q is no fingerprint: lane relay prints one, sha256: and 64 digits", v)
	}
	return v, nil
}

func checkConsulAddress(v string) (string, error) {
	scheme, rest, ok := strings.Cut(v, "://")
	if !ok {
		rest = v
		if _, port, err := net.SplitHostPort(v); err != nil || port == "" {
			if host := strings.Trim(strings.TrimSuffix(v, ":"), "[]"); CheckHost(host) != nil {
				return "", fmt.Errorf("%q is no address such as 10.0.0.5:8500 or https://consul.test.example", redacted(v))
			}
			return "", fmt.Errorf("%q has no port; say %s", v, net.JoinHostPort(strings.Trim(strings.TrimSuffix(v, ":"), "[]"), "8500"))
		}
	}
	switch scheme = strings.ToLower(scheme); {
	case !ok, scheme == "http", scheme == "https":
	case scheme == "unix":
		if rest == "" {
			return "", fmt.Errorf("%q names no socket", v)
		}
		return v, nil
	default:
		return "", fmt.Errorf("%q: the scheme is none of http, https, unix", v)
	}
	u, err := url.Parse("http://" + rest)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("the address is no host:port and no URL") // it may hold a password: not shown
	}
	if u.User != nil {
		return "", errors.New("no user or password here; use token_file or CONSUL_HTTP_TOKEN")
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q: a host and a port only", v)
	}
	if p := u.Port(); p != "" {
		if _, err := CheckPort(p); err != nil {
			return "", err
		}
	}
	return strings.TrimRight(v, "/"), nil
}

func checkConsulName(v string) (string, error) {
	if v == "" || strings.Trim(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return "", fmt.Errorf("%q: letters, digits, - and _ only", v)
	}
	return v, nil
}

// checkWord reads an env, a tenant, a zone or a version.
func checkWord(v string) (string, error) {
	if err := printable(v); err != nil {
		return "", err
	}
	if err := lane.CheckWord(v); err != nil {
		return "", fmt.Errorf("%q: %w", v, err)
	}
	return v, nil
}

// redacted is a value that may be an address with a password in it.
func redacted(v string) string {
	if at := strings.LastIndexByte(v, '@'); at >= 0 {
		return "***" + v[at:]
	}
	return v
}

func checkOwner(v string) (string, error) {
	if strings.TrimSpace(v) == "" {
		return "", fmt.Errorf("%q is empty; say who holds the lane, such as alice", v)
	}
	if len(v) > 128 {
		return "", fmt.Errorf("longer than 128 bytes")
	}
	return v, printable(v)
}

func printable(v string) error {
	switch {
	case v == "" || strings.TrimSpace(v) != v:
		return fmt.Errorf("%q is empty, or begins or ends with white space", v)
	case len(v) > maxMeta:
		return fmt.Errorf("longer than %d bytes", maxMeta)
	case !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%q holds characters that cannot be printed", v)
	}
	return nil
}

func checkAdvertise(v string) (string, error) {
	ip, err := netip.ParseAddr(v)
	switch {
	case err != nil:
		if _, _, err := net.SplitHostPort(v); err == nil {
			return "", fmt.Errorf("%q: an IP address without a port; each service gets a port of its own", v)
		}
		return "", fmt.Errorf("%q is no IP address such as 10.2.0.77", v)
	case ip.IsUnspecified() || ip.IsMulticast():
		return "", fmt.Errorf("%q cannot be dialled by others; say an address of this machine, such as 10.2.0.77", v)
	case ip.Zone() != "":
		return "", fmt.Errorf("%q: a zone means nothing on another machine", v)
	}
	return ip.Unmap().String(), nil
}

// CheckPath reads a path of a URL, without a query.
func CheckPath(v string) (string, error) {
	u, err := url.ParseRequestURI(v)
	if err != nil || !strings.HasPrefix(v, "/") || u.RawQuery != "" || strings.Contains(v, "?") {
		return "", fmt.Errorf("%q is no path such as /healthz", v)
	}
	return u.Path, nil
}

// checkProxy reads the proxy's address. It is for this machine only: whoever
// reaches it can call everything that the developer can.
func checkProxy(v string) (string, error) {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return "", fmt.Errorf("%q is no host:port", v)
	}
	if !loopback(host) {
		return "", fmt.Errorf("%q is not on this machine's loopback; say 127.0.0.1:%s", v, port)
	}
	return v, CheckListen(v)
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() && ip.Zone() == ""
}
