package rules

import (
	"strings"
	"testing"

	"lane/pkg/http1"
)

func TestParseKey(t *testing.T) {
	for _, s := range []string{"header=x-user-id", "cookie=uid"} {
		k, err := ParseKey(s)
		if err != nil || k.String() != s {
			t.Errorf("%s: %q, %v", s, k, err)
		}
	}
	if k, err := ParseKey(" header = X-User-Id "); err != nil || k.String() != "header=x-user-id" || k.Header() != "x-user-id" {
		t.Errorf("%q %v", k, err)
	}
	for s, want := range map[string]string{
		"client_ip":              "client_ip holds the client's address, which many users share and one user changes; take a header or a cookie",
		"random":                 "random is chance",
		"":                       `"": say { header: NAME } or { cookie: NAME }`,
		"x-user-id":              `"x-user-id": say { header: NAME } or { cookie: NAME }, or in a variable header=NAME`,
		"header=":                "the header has no name; say { header: NAME }",
		"query=uid":              `"query" is no place of a key; say { header: NAME } or { cookie: NAME }`,
		"header=X-Forwarded-For": "header x-forwarded-for holds the client's address",
		"header=x-request-id":    "differs for each request, which is chance",
		"header=x-lane-tag":      "is lane's own",
		"header=cookie":          "say cookie",
		"header=a b":             "is no header name",
		"cookie=a;b":             "is no cookie's name",
		"cookie=X-Lane-Tag":      "is lane's own",
	} {
		if _, err := ParseKey(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
	}
}

func TestKeyOf(t *testing.T) {
	header, _ := ParseKey("header=x-user-id")
	cookie, _ := ParseKey("cookie=uid")
	for _, tt := range []struct {
		k     Key
		h     Map
		user  string
		twice bool
	}{
		{header, Map{"X-User-Id": {" u-1 "}}, "u-1", false},
		{header, Map{"X-User-Id": {"u-1", "u-1"}}, "u-1", false},
		{header, Map{"X-User-Id": {"u-1", "u-2"}}, "", true},
		{header, Map{"X-User-Id": {""}}, "", false},
		{header, Map{"Cookie": {"x-user-id=u-1"}}, "", false},
		{header, nil, "", false},
		{cookie, Map{"Cookie": {`a=b; uid="u-1"`}}, "u-1", false},
		{cookie, Map{"Uid": {"u-1"}}, "", false},
		{Key{}, Map{"": {"u-1"}}, "", false},
	} {
		if user, twice := tt.k.Of(tt.h); user != tt.user || twice != tt.twice {
			t.Errorf("%s of %v: %q %v", tt.k, tt.h, user, twice)
		}
	}
	head := &Head{Fields: []http1.Field{{Name: "x-user-ID", Value: "u-1"}}}
	if n := testing.AllocsPerRun(100, func() {
		if user, _ := header.Of(head); user != "u-1" {
			t.Fatal(user)
		}
	}); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}
