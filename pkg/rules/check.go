package rules

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// isToken reports whether s can be the name of a header or a cookie (RFC 9110,
// 5.6.2).
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			continue
		}
		return false
	}
	return s != ""
}

// isWord reports whether s is one word of letters, digits and some of inner: an
// ID stands in metrics and headers, and salts the buckets.
func isWord(s, inner string) bool {
	for i, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || strings.IndexByte(inner, c) < 0) {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// elsewhere are headers that have a matcher of their own, or none.
var elsewhere = map[string]string{
	"cookie": "say cookie", "host": "say host", "baggage": "it is a list that others share",
	"authorization": "credentials do not belong into a document", "proxy-authorization": "credentials do not belong into a document",
}

// checkHeader says why a header cannot be looked at; name is in lower case.
func checkHeader(name string) string {
	if !isToken(name) {
		return "is no header name"
	}
	if strings.HasPrefix(name, "x-lane-") {
		return "is lane's own: whether a tag counts is up to trustHeader"
	}
	return elsewhere[name]
}

// badKeys are headers that do not tell users apart for long, or at all.
var badKeys = func() map[string]string {
	m := map[string]string{}
	for why, names := range map[string]string{
		"holds the client's address, which many users share and one user changes": "x-forwarded-for x-real-ip forwarded true-client-ip x-client-ip " +
			"cf-connecting-ip fastly-client-ip x-cluster-client-ip x-original-forwarded-for x-envoy-external-address x-remote-addr",
		"differs for each request, which is chance": "x-request-id x-correlation-id traceparent tracestate b3 x-b3-traceid x-b3-spanid " +
			"uber-trace-id sw8 x-amzn-trace-id x-cloud-trace-context x-datadog-trace-id date",
	} {
		for n := range strings.FieldsSeq(names) {
			m[n] = why
		}
	}
	return m
}()

// noKeys are what is asked for instead of a key.
var noKeys = map[string]string{
	"ip": badKeys["x-real-ip"], "client_ip": badKeys["x-real-ip"], "clientip": badKeys["x-real-ip"], "remote_addr": badKeys["x-real-ip"],
	"random": "is chance: one user would see both systems", "none": "is chance: one user would see both systems",
}

// parsePrefix reads a network, or one address.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" && !a.Is4In6() {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil || p.Addr().Is4In6():
		return p, fmt.Errorf("%q is no network such as 10.0.0.0/8", s)
	case p != p.Masked():
		return p, fmt.Errorf("%q is an address inside of a network; say %s", s, p.Masked())
	}
	return p, nil
}

// parsePercent reads "5", "0.25" or "99.5%" in hundredths of a percent.
func parsePercent(s string) (int, error) {
	whole, part, dot := strings.Cut(strings.TrimSuffix(s, "%"), ".")
	if whole == "" || len(whole) > 3 || dot && (part == "" || len(part) > 2) || strings.Trim(whole+part, "0123456789") != "" {
		if dot && len(part) > 2 && strings.Trim(whole+part, "0123456789") == "" {
			return 0, fmt.Errorf("%q is finer than 0.01", s)
		}
		return 0, fmt.Errorf("%q is no percentage such as 5 or 0.25", s)
	}
	n := 0
	for _, c := range whole + (part + "00")[:2] {
		n = n*10 + int(c-'0')
	}
	if n > 10000 {
		return 0, fmt.Errorf("%q is more than 100", s)
	}
	return n, nil
}
