package traffic

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
)

// sample is exchanges by name; the names are the tests' words.
func sample() map[string]*Exchange {
	return map[string]*Exchange{
		"match": {Front: FrontForward, From: "127.0.0.1:5123", Method: "GET", URL: "http://orders/api/orders/42",
			Service: "orders", Lane: "dev-alice", Kind: lane.KindLaneMatch, Reason: "lane_match", Status: 200, Took: 9 * time.Millisecond, TraceID: "4bf92f3577b3"},
		"fallback": {Front: FrontForward, From: "127.0.0.1:5124", Method: "GET", URL: "http://users/v1/users/7",
			Service: "users", Lane: "dev-alice", Kind: lane.KindFallback, Reason: "lane_absent", Status: 200, Took: 31 * time.Millisecond},
		"broken": {Front: FrontForward, From: "127.0.0.1:5125", Method: "POST", URL: "http://inventory/v1/stock?sku=9",
			Service: "inventory", Kind: lane.KindBaseline, Reason: "untagged", Status: 503, Took: 2001 * time.Millisecond},
		"bounced": {Front: FrontGuard, From: "10.2.0.9:4312", Method: "GET", URL: "http://orders/api/orders",
			Service: "orders", Guard: GuardBounced, Kind: lane.KindBaseline, Status: 200},
		"external": {Front: FrontForward, Method: "CONNECT", URL: "api.partner.test:443",
			Kind: lane.KindExternal, Reason: "external_host", Status: 200},
		"refused": {Front: FrontForward, Method: "GET", URL: "http://ghost/healthz", Service: "ghost",
			Kind: lane.KindError, Code: lane.CodeNoInstances, Reason: "service_has_no_instances", Status: 503},
		"silent": {Front: FrontForward, Method: "GET", URL: "http://orders/slow", Service: "orders",
			Lane: "dev-alice", Kind: lane.KindLaneMatch, Err: "EOF"},
	}
}

// What a lost tunnel has cut off is no error of lane's own, and has no status of its own.
func TestFilterOfALostTunnel(t *testing.T) {
	cut := Exchange{Front: FrontGuard, Service: "orders", Guard: GuardPassed, Kind: lane.KindLaneMatch, Code: CodeRelayLost, Err: "the tunnel broke"}
	for filter, want := range map[string]bool{"route:lost": true, "route:LOST|err": true, "st:none": true, "route:err": false, "route:lane": false, "st:5xx": false, "-route:lost": false} {
		f, err := ParseFilter(filter)
		if err != nil || f.Match(&cut) != want {
			t.Errorf("%s: %v, %v", filter, f.Match(&cut), err)
		}
	}
}

func TestFilter(t *testing.T) {
	all := "bounced broken external fallback match refused silent"
	for _, c := range []struct{ filter, want string }{
		{"", all},
		{"   ", all},
		{"svc:*", all},
		{"svc:orders", "bounced match silent"},
		{"svc:ORD", "bounced match silent"},
		{"svc:orders|users", "bounced fallback match silent"},
		{"svc:*s", "bounced fallback match silent"},
		{"svc:u*s", "fallback"},
		{"svc:partner", "external"},
		{"-svc:orders", "broken external fallback refused"},
		{"m:get -svc:orders", "fallback refused"},
		{"m:GE", ""},
		{"path:/v1", "broken fallback"},
		{"/v1", "broken fallback"},
		{"-/v1 -healthz", "bounced external match silent"},
		{"/v1/users/*", "fallback"},
		{"sku=9", "broken"},
		{"/api|/slow", "bounced match silent"},
		{":443", "external"},
		{"api.partner.test:443", "external"},
		{"st:5xx", "broken refused"},
		{"st:2XX|503", "bounced broken external fallback match refused"},
		{"st:>=500", "broken refused"},
		{"st:<300", "bounced external fallback match"},
		{"-st:<300", "broken refused silent"},
		{"st:none", "silent"},
		{"ms:>200", "broken"},
		{"ms:>=31", "broken fallback"},
		{"ms:9", "match"},
		{"ms:<=9 st:200 svc:orders", "bounced match"},
		{"route:fallback", "fallback"},
		{"route:fb|guard", "bounced fallback"},
		{"route:BASE~fb", "fallback"},
		{"route:lane", "match silent"},
		{"route:base", "broken"},
		{"route:ext", "external"},
		{"route:err", "refused"},
		{"route:lost", ""},
		{"from:10.2", "bounced"},
		{"from:me -m:connect -svc:orders", "broken fallback refused"},
		{"lane:dev-alice", "fallback match silent"},
		{"lane:none", "bounced broken external refused"},
		{"lane:dev*", "fallback match silent"},
		{"trace:4BF9", "match"},
		{"trace:f92", ""},
		{`"/v1/users/7"`, "fallback"},
		{`"st:5xx"`, ""},
		{`path:"/v1"`, "broken fallback"},
		{"a:b", "!no such key"},
		{"st:6xx", "!is no status"},
		{"st:4x", "!is no status"},
		{"st:=>5", "!is no status"},
		{"st:200.5", "!is no status"},
		{"st:>=5", "!is no status"},
		{"st:600", "!is no status"},
		{"ms:fast", "!is no number"},
		{"ms:>", "!is no number"},
		{"ms:>1e9", "!is no number"},
		{"route:nowhere", "!is no route"},
		{"svc:", "!value is missing"},
		{"svc:a|", "!value is missing"},
		{"-", "!value is missing"},
		{`path:"open`, "!quote is not closed"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			f, err := ParseFilter(c.filter)
			if why, bad := strings.CutPrefix(c.want, "!"); bad {
				var fe *FilterError
				if !errors.As(err, &fe) || !strings.Contains(err.Error(), why) {
					t.Fatalf("error %v, want one that says %q", err, why)
				}
				if fe.Term == "" || c.filter[fe.At:fe.At+len(fe.Term)] != fe.Term {
					t.Errorf("the error points at %q, byte %d", fe.Term, fe.At)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, name := range strings.Fields(all) {
				if f.Match(sample()[name]) {
					got = append(got, name)
				}
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("chose %q, want %q", g, c.want)
			}
			if f.Empty() != (strings.TrimSpace(c.filter) == "") {
				t.Errorf("Empty is %v", f.Empty())
			}
		})
	}
}

// TestFilterExamples: what help shows as a value must be one.
func TestFilterExamples(t *testing.T) {
	for _, k := range FilterKeys() {
		for v := range strings.SplitSeq(k.Values, ", ") {
			if _, err := ParseFilter(k.Key + ":" + v); err != nil {
				t.Error(err)
			}
		}
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{"svc:a|b -path:/x st:>=500", `"a b"`, "-", "::", "a:|", "ms:>>1", "\x1b[2J", "路由:x"} {
		f.Add(s)
	}
	rows := sample()
	f.Fuzz(func(t *testing.T, s string) {
		flt, err := ParseFilter(s)
		if err != nil {
			var fe *FilterError
			if !errors.As(err, &fe) || s[fe.At:fe.At+len(fe.Term)] != fe.Term {
				t.Fatalf("%q: error %#v", s, err)
			}
			return
		}
		again, err := ParseFilter(flt.String())
		if err != nil {
			t.Fatalf("%q was read, its own text %q was not: %v", s, flt.String(), err)
		}
		for name, e := range rows {
			if flt.Match(e) != again.Match(e) {
				t.Errorf("%q and %q differ on %s", s, flt.String(), name)
			}
		}
		if !flt.Empty() && strings.Trim(s, " \t\r\n") == "" {
			t.Errorf("%q chooses", s)
		}
	})
}
