package traffic

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"lane/pkg/lane"
)

func TestRouteMarkWhy(t *testing.T) {
	const l = lane.Name("dev-alice")
	for _, c := range []struct {
		name  string
		e     Exchange
		route string
		mark  rune
		why   string
	}{
		{"match", Exchange{Service: "users", Lane: l, Kind: lane.KindLaneMatch, Reason: "lane_match", Status: 200},
			"LANE", ' ', "users runs in lane dev-alice"},
		{"absent", Exchange{Service: "users", Lane: l, Kind: lane.KindFallback, Reason: "lane_absent", Status: 200},
			"BASE~fb", '>', "no instance of users in lane dev-alice"},
		{"degraded", Exchange{Service: "users", Lane: l, Kind: lane.KindDegraded, Reason: "proportional", Status: 200},
			"BASE~fb", '>', "the policy sends a share of lane dev-alice to the baseline"},
		{"fallback that failed", Exchange{Service: "users", Lane: l, Kind: lane.KindFallback, Reason: "lane_drained", Status: 500},
			"BASE~fb", '!', "every instance of users in lane dev-alice is draining"},
		{"untagged", Exchange{Service: "users", Kind: lane.KindBaseline, Reason: "untagged", Status: 200},
			"BASE", ' ', "no tag: the baseline serves it"},
		{"tls", Exchange{Service: "users", Kind: lane.KindBaseline, Reason: "explicit_baseline", Note: "not colored (TLS)", Status: 200},
			"BASE", ' ', "the tag asks for the baseline; not colored (TLS)"},
		{"killed", Exchange{Service: "users", Tag: "gray", Kind: lane.KindKillSwitch, Reason: "kill_switch", Status: 200},
			"BASE~ks", ' ', "lane gray is switched off by a kill switch: the baseline serves it"},
		{"external", Exchange{Kind: lane.KindExternal, Reason: "external_host", Status: 301},
			"EXT", ' ', "not a service of the registry: passed on without lane headers"},
		{"strict", Exchange{Service: "users", Lane: l, Kind: lane.KindError, Reason: "lane_absent", Code: lane.CodeLaneNoMatch, Status: 503},
			"ERR", '!', "no instance of users in lane dev-alice, and the policy forbids the baseline"},
		{"claimed", Exchange{Service: "users", Lane: l, Kind: lane.KindError, Reason: "lane_declared_but_absent", Code: lane.CodeLaneUnhealthy, Status: 503},
			"ERR", '!', "users is claimed in lane dev-alice but no instance is registered"},
		{"dial", Exchange{Service: "users", Kind: lane.KindLaneMatch, Reason: "lane_match", Code: lane.CodeUpstreamConnect, Addr: "10.0.0.1:80", Tries: 2, Status: 502},
			"ERR", '!', "no connection to users at 10.0.0.1:80, the last of 2 tried"},
		{"cut off", Exchange{Service: "users", Lane: l, Kind: lane.KindLaneMatch, Reason: "lane_match", Err: "EOF"},
			"LANE", '!', "users runs in lane dev-alice"},
		{"bad tag", Exchange{Tag: "A\x1bB", Kind: lane.KindError, Reason: "tag_invalid", Code: lane.CodeTagInvalid, Status: 400},
			"ERR", '!', `tag "A\x1bB" is no valid lane name`},
		{"passed", Exchange{Front: FrontGuard, Guard: GuardPassed, Tag: "dev-alice", Lane: l, Status: 200},
			"LANE", ' ', "the tag is this lane's: the local process served it"},
		{"bounced", Exchange{Front: FrontGuard, Guard: GuardBounced, Status: 200},
			"GUARD", 'x', "no tag: sent on to the baseline, the local process was not called"},
		{"bounced other", Exchange{Front: FrontGuard, Guard: GuardBounced, Tag: "dev-bob", Status: 200},
			"GUARD", 'x', `tag "dev-bob" is not this lane's: sent on to the baseline, the local process was not called`},
		{"rejected", Exchange{Front: FrontGuard, Guard: GuardRejected, Status: 421},
			"GUARD", 'x', "no tag: turned away, the local process was not called"},
		{"rejected with its code", Exchange{Front: FrontGuard, Guard: GuardRejected, Kind: lane.KindError, Code: "E_GUARD_REJECTED", Reason: "guard_rejected", Tag: "x", Status: 421},
			"GUARD", 'x', `tag "x" is not this lane's: turned away, the local process was not called`},
		{"loop at the guard", Exchange{Front: FrontGuard, Guard: GuardRejected, Kind: lane.KindError, Code: lane.CodeLoopDetected, Reason: "guard_loop", Status: 508},
			"ERR", '!', "it came to a guard for the second time: a loop"},
		{"local port closed", Exchange{Front: FrontGuard, Guard: GuardPassed, Kind: lane.KindLaneMatch, Code: lane.CodeUpstreamConnect, Err: "the local process of users takes no connection", Status: 502},
			"ERR", '!', "the local process of users takes no connection"},
		{"a lost tunnel", Exchange{Front: FrontGuard, Guard: GuardPassed, Lane: l, Kind: lane.KindLaneMatch, Reason: "lane_match", Code: CodeRelayLost, Err: "the tunnel broke"},
			"LOST", '!', "the tunnel broke"},
		{"a lost tunnel on the way out", Exchange{Lane: l, Kind: lane.KindFallback, Reason: "lane_absent", Code: CodeRelayLost, Status: 502},
			"LOST", '!', "the tunnel to the relay is lost"},
		{"bad target", Exchange{Kind: lane.KindError, Code: "E_BAD_TARGET", Status: 400}, "ERR", '!', "the request's target cannot be sent on"},
		{"bounced to nobody", Exchange{Front: FrontGuard, Service: "users", Guard: GuardBounced, Kind: lane.KindError, Reason: "no_baseline_registered", Code: lane.CodeNoBaseline, Status: 503},
			"ERR", '!', "no baseline instance of users is registered"},
		{"probe", Exchange{Front: FrontGuard, Guard: GuardProbe, Status: 200},
			"GUARD", ' ', "a health probe: the guard answered it"},
		{"a reason to come", Exchange{Kind: lane.KindBaseline, Reason: "moon_phase", Status: 200},
			"BASE", ' ', "moon phase"},
		{"nothing known", Exchange{}, "BASE", ' ', "no reason recorded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Route(&c.e); got != c.route {
				t.Errorf("route %q, want %q", got, c.route)
			}
			if got := Mark(&c.e); got != c.mark {
				t.Errorf("mark %q, want %q", got, c.mark)
			}
			if got := Why(&c.e); got != c.why {
				t.Errorf("why %q, want %q", got, c.why)
			}
		})
	}
}

func TestFrom(t *testing.T) {
	for _, c := range []struct {
		front      Front
		from, want string
	}{
		{FrontForward, "127.0.0.1:1", "me"},
		{FrontGuard, "127.0.0.1:1", "local"},
		{FrontGuard, "[::1]:1", "local"},
		{FrontGuard, "[::ffff:127.0.0.1]:1", "local"},
		{FrontGuard, "10.2.0.14:4312", "10.2.0.14"},
		{FrontGuard, "batch-01", "batch-01"},
		{FrontGuard, "\x1b]0;x\a", `\x1b]0;x\x07`},
	} {
		if got := From(&Exchange{Front: c.front, From: c.from}); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.front, c.from, got, c.want)
		}
	}
}

func TestOutcome(t *testing.T) {
	for want, e := range map[string]Exchange{
		"201":                {Status: 201},
		"503 E_NO_BASELINE":  {Status: 503, Code: lane.CodeNoBaseline, Err: "not twice"},
		"no response: EOF":   {Err: "EOF"},
		"no response":        {},
		`200: cut off \x1b[`: {Status: 200, Err: "cut off \x1b["},
	} {
		if got := Outcome(&e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestEveryReasonHasWords: a new reason of a decision needs some here.
func TestEveryReasonHasWords(t *testing.T) {
	src, err := os.ReadFile("../lane/reason.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Reason\w+\s+Reason = "(\w+)"`).FindAllSubmatch(src, -1)
	if len(found) < 20 {
		t.Fatalf("only %d reasons found", len(found))
	}
	for _, f := range found {
		e := Exchange{Kind: lane.KindBaseline, Reason: lane.Reason(f[1])}
		if Why(&e) == strings.ReplaceAll(string(f[1]), "_", " ") {
			t.Errorf("reason %s has no words", f[1])
		}
	}
}

func TestWarning(t *testing.T) {
	for in, want := range map[string]string{
		"quarantined:q1":           "instance q1 is left out: its lane is missing or malformed",
		"meta_conflict:c1":         "instance c1 has two different lanes in its metadata",
		"tag_conflict:other!=gray": `the request came with tag "other"; its trace belongs to lane gray`,
		"tag_conflict:odd":         "tag_conflict:odd",
		"tag_conflict:dev-bob in baggage!=dev-alice in x-lane-tag": `the request has two tags: "dev-alice" in x-lane-tag, which counts, and "dev-bob" in baggage`,
		"tag_conflict:a in b in cookie!=dev-alice in query":        `the request has two tags: "dev-alice" in query, which counts, and "a in b" in cookie`,
		"all_weights_zero_equalised":                               "no instance has a weight yet: all count the same",
		"registry_stale_age_42s":                                   "the registry had no leader for 42s",
		"registry_unreachable_age_900s":                            "the registry did not answer for 900s",
		"registry_stale_age_unknown":                               "the registry has not named a leader yet",
		"tag_lost":                                                 "its trace was in the lane: the caller, or a service before it, did not pass the tag on",
		"no_trace_id":                                              "the call bears no trace id: if it is made for a request of a lane, the tag is lost here",
		"tag_missing:trace_mapped":                                 "the request had lost its tag: its trace gave it back",
		"tag_missing:no_header":                                    "the request has no tag, and the entry gives each one: it was lost on the way",
		"something new":                                            "something new",
		"quarantined:\x1b[2J":                                      `instance \x1b[2J is left out: its lane is missing or malformed`,
		"":                                                         "",
	} {
		if got := Warning(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestMaskURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://a/b?c=d&e=f":                  "http://a/b?c=d&e=f",
		"http://a/b?token=t&x=1":              "http://a/b?token=***&x=1",
		"/b?api_key=k;PASSWORD=p":             "/b?api_key=***",
		"/b?access_token=k&sig=p&empty_key=":  "/b?access_token=***&sig=***&empty_key=",
		"/b?X-Amz-Signature=abc&X-Amz-Date=1": "/b?X-Amz-Signature=***&X-Amz-Date=1",
		"/b?to%6ben=secret":                   "/b?to%6ben=***",
		"/b?to%zz&monkey=1&keyboard=us":       "/b?to%zz&monkey=1&keyboard=us",
		"/cb#access_token=t&state=1":          "/cb#access_token=***&state=1",
		"/cb?secret=1#id_token=t":             "/cb?secret=***#id_token=***",
		"http://user:pw@host/p@q?x=1":         "http://user:***@host/p@q?x=1",
		"http://user@host/":                   "http://user@host/",
		"http://a:b:c@h":                      "http://a:***@h",
		"host:443":                            "host:443",

		"http://h/g;password=X/x":               "http://h/g;password=***/x",
		"http://h/g;a=b;password=X;Y/x;c=d?e=f": "http://h/g;a=b;password=***/x;c=d?e=f",
		"/g;jsessionid=X":                       "/g;jsessionid=***",
		"/g%3Bpass%77ord=X/token=X#a=b":         "/g%3Bpass%77ord=***/token=***#a=b",
		"/a;b=c/d=e;version=1":                  "/a;b=c/d=e;version=1",
		"/cb#access_token=X?a=b":                "/cb#access_token=***?a=b",

		"/x?code=X&state=s":                         "/x?code=***&state=s",
		"/x?a=b&co%64e=X&session_state=s":           "/x?a=b&co%64e=***&session_state=***",
		"http://h/oauth2/answer?code=X":             "http://h/oauth2/answer?code=***",
		"/login-callback#code=X":                    "/login-callback#code=***",
		"/#/start?code=X&iss=i":                     "/#/start?code=***&iss=i",
		"/token?grant_type=a&redirect_uri=/&code=X": "/token?grant_type=a&redirect_uri=/&code=***",
		"/x?code=EUR":                               "/x?code=EUR",
		"http://cb/x?code=EUR&status=s":             "http://cb/x?code=EUR&status=s",
		"/x?postcode=1&state=TX":                    "/x?postcode=1&state=TX",

		"/x?env[0][name]=DB_PASSWORD&env[0][value]=X&env[1][name]=USER&env[1][value]=n": "/x?env[0][name]=DB_PASSWORD&env[0][value]=***&env[1][name]=USER&env[1][value]=n",
		"/x?value=X&name=Authorization":    "/x?value=***&name=Authorization",
		"/x?value=n&name=User&n=password2": "/x?value=n&name=User&n=password2",
		"":                                 "",
		"/?":                               "/?",
		"http://h/?user[password]=x&clientSecret=abc": "http://h/?user[password]=***&clientSecret=***",
	} {
		if got := MaskURL(in); got != want {
			t.Errorf("%s -> %s, want %s", in, got, want)
		}
	}
}

func TestHeadMasks(t *testing.T) {
	h := http.Header{
		"Authorization":       {"Bearer abc.def", "raw-secret"},
		"Proxy-Authorization": {"Basic dTpw"},
		"Cookie":              {"sid=1; theme=dark; odd"},
		"Set-Cookie":          {"sid=1; Path=/; HttpOnly"},
		"X-Vault-Token":       {"s.123"},
		"X-Api-Key":           {"k"},
		"Apikey":              {"k"},
		"Location":            {"/cb?code=1&token=2"},
		"Accept":              {"*/*"},
		"X-Lane-Tag":          {"dev-alice"},
		"Sec-Websocket-Key":   {"dGhl"},
		"Content-Type":        {"text/plain"},
	}
	got := HeadOf(h).Header()
	for k, want := range map[string]string{
		"Authorization": "Bearer ***|***", "Proxy-Authorization": "Basic ***", "Cookie": "sid=***; theme=***;***",
		"Set-Cookie": "sid=***; Path=/; HttpOnly", "X-Vault-Token": "***", "X-Api-Key": "***", "Apikey": "***",
		"Location": "/cb?code=***&token=***", "Accept": "*/*", "X-Lane-Tag": "dev-alice",
		"Sec-Websocket-Key": "dGhl", "Content-Type": "text/plain",
	} {
		if g := strings.Join(got[k], "|"); g != want {
			t.Errorf("%s: %q, want %q", k, g, want)
		}
	}
	if h.Get("Authorization") != "Bearer abc.def" {
		t.Error("the original was changed")
	}
	if HeadOf(nil).Header() != nil {
		t.Error("a header out of nothing")
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain /path?a=b": "plain /path?a=b",
		"订单 café":         "订单 café",
		"\x1b[31mred":     `\x1b[31mred`,
		"a\nb\tc\x7f":     `a\x0ab\x09c\x7f`,
		"\u009b31m":       `\x9b31m`,
		"bad\xff":         `bad\xff`,
		"rev\u202eersed":  `rev\u{202e}ersed`,
		"zero\u200bwidth": `zero\u{200b}width`,
		"line\u2028sep":   `line\u{2028}sep`,
		"real \ufffd":     "real \ufffd",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q -> %q, want %q", in, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[2J\xff\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Printable(s)
		for _, r := range got {
			if unicode.IsControl(r) || !unicode.IsPrint(r) {
				t.Fatalf("%q lets %q through", s, r)
			}
		}
		if Printable(got) != got {
			t.Fatalf("%q changes again", got)
		}
		MaskURL(s)
		MaskHeaderValue("Cookie", s)
	})
}

func TestHeadText(t *testing.T) {
	h := HeadText("Host: svc\r\nX-Api-Key:  k \r\naccept: a\r\naccept: b\r\nno colon\r\n").Header()
	if h["Host"][0] != "svc" || h["X-Api-Key"][0] != "***" || len(h["accept"]) != 2 || len(h) != 3 {
		t.Errorf("%v", h)
	}
	long := "A: " + strings.Repeat("x", 3000) + "\r\nB: " + strings.Repeat("y", 3000) + "\r\n"
	h = HeadText(long).Header()
	if len(h) != 1 || len(h["A"][0]) > maxField+len("…") {
		t.Errorf("%d fields, %d bytes", len(h), len(h["A"][0]))
	}
	if h := HeadOf(http.Header{"A": {"b\r\nC: d"}}).Header(); len(h) != 1 || h["A"][0] != "b  C: d" {
		t.Errorf("a value ended its line: %v", h)
	}
}
