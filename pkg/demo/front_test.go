package demo

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"lane/pkg/lane"
	"lane/pkg/rules"
)

// Nobody's text becomes markup: not a service's, a lane's, an instance's or a
// visitor's.
func TestThePageEscapes(t *testing.T) {
	const evil = `<script>alert("1")</script>'&`
	f := &front{}
	f.says.Store(&signs{try: []Try{{evil, evil}}, visits: []visit{{evil, evil, evil}}})
	p := &page{Service: evil, By: evil, Instance: evil, Says: evil, Tag: evil, Calls: []call{
		{Service: evil, Status: 503, Code: evil},
		{Service: evil, Decision: "FALLBACK_BASELINE; lane=" + evil, Page: &page{Service: evil, By: baseline, Instance: evil, Says: evil, Tag: evil}},
		{Service: evil, Decision: "KILL_SWITCH_BASELINE", Page: &page{Service: evil, By: baseline, Tag: evil}},
		{Service: evil, Page: &page{Service: evil, By: evil}},
	}}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Cookie", userCookie+"="+`<script>`)
	w := httptest.NewRecorder()
	f.write(w, r, p)
	body := w.Body.String()
	for _, raw := range []string{"<script", `"1"`, "'&"} {
		if strings.Contains(body, raw) {
			t.Errorf("%q stands in the page as it came", raw)
		}
	}
	if n := strings.Count(body, "&lt;script&gt;"); n < 15 {
		t.Errorf("%d texts are shown, escaped", n)
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; ") {
		t.Errorf("the page may load: %q", csp)
	}
	for _, loads := range []string{"src=", "@import", "url(", "<link", "http-equiv"} {
		if strings.Contains(body, loads) {
			t.Errorf("the page has %s", loads)
		}
	}
}

// Only a name becomes a cookie.
func TestBecomingAUser(t *testing.T) {
	for _, c := range []struct{ ask, cookie string }{
		{"user=dev2", "user=dev2; Path=/; HttpOnly; SameSite=Lax"},
		{"user=u-17", "user=u-17; Path=/; HttpOnly; SameSite=Lax"},
		{"", "user=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"},
		{"user=a%3Bb", "user=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"},
		{"user=a%0D%0AX-Evil:1", "user=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"},
		{"user=" + strings.Repeat("a", 21), "user=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"},
	} {
		w := httptest.NewRecorder()
		if !(&front{}).other(w, httptest.NewRequest(http.MethodGet, "/as?"+c.ask, nil)) {
			t.Fatalf("%q shows the page", c.ask)
		}
		if got := w.Header().Values("Set-Cookie"); len(got) != 1 || got[0] != c.cookie || w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
			t.Errorf("%q: %d %v", c.ask, w.Code, w.Header())
		}
	}
}

// Each link of the page leads where it says, as a browser follows it.
func TestTheLinksOfThePage(t *testing.T) {
	emptyTemp(t)
	badges := func(body, lane string) int { return strings.Count(body, `<span class="b l">lane `+lane+`</span>`) }
	err := in(t, func(ctx context.Context, w *World) error {
		for i, v := range w.shop[productpage].shop.says.Load().visits {
			cookie := ""
			if strings.HasPrefix(v.href, signIn) {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.entry+v.href, nil)
				if err != nil {
					return err
				}
				res, err := w.people.t.RoundTrip(req)
				if err != nil {
					return err
				}
				_ = res.Body.Close()
				for _, c := range res.Cookies() {
					if c.MaxAge >= 0 {
						cookie = c.Name + "=" + c.Value
					}
				}
				v.href = "/"
			}
			a, err := w.people.get(ctx, w.entry+v.href, "Cookie", cookie, "Accept", "text/html,*/*")
			if err != nil {
				return err
			}
			served := []int{badges(string(a.Body), laneAlice), badges(string(a.Body), laneBob), badges(string(a.Body), laneNext)}
			if want := [][]int{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 0}}[i]; !slices.Equal(served, want) {
				t.Errorf("%s: parts by dev2, dev3 and canary: %v, want %v\n%s", v.who, served, want, a.Body)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What the page says of a part that the lane did not serve.
func TestServed(t *testing.T) {
	for _, c := range []struct{ by, kind, asked, want string }{
		{baseline, "BASELINE", "baseline", `<span class="b ">baseline</span>`},
		{laneAlice, "LANE_MATCH", laneAlice, `<span class="b l">lane dev2</span>`},
		{baseline, string(lane.KindFallback), laneAlice, `<span class="b f">baseline</span> <small>lane dev2 has none</small>`},
		{baseline, string(lane.KindKillSwitch), laneAlice, `<span class="b f">baseline</span> <small>lane dev2 is killed</small>`},
	} {
		if got := served(c.by, c.kind, c.asked); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.by, c.kind, got, c.want)
		}
	}
}

// The demo's rules have nothing that lint finds, and a share is what the rules
// themselves, who have their own way to count it, make of it.
func TestTheRulesOfTheShop(t *testing.T) {
	for _, percent := range []int{sharePercent, morePercent} {
		doc := []byte(document(percent))
		for _, f := range rules.Lint(doc, rules.LintOptions{Services: []string{productpage}}) {
			t.Errorf("%d %%: %s %s", percent, f.Code, f.Words)
		}
		set, err := rules.Parse(doc)
		if err != nil {
			t.Fatal(err)
		}
		in := shareOf(percent)
		for n := range users {
			u := user(n + 1)
			res := set.Color(&rules.Request{Entry: productpage, Target: "/", Headers: rules.Map{"Cookie": {userCookie + "=" + u}}}, nil)
			if got := res.Tag.Lane == laneNext; got != slices.Contains(in, u) {
				t.Errorf("%d %%: the rules say %v of %s", percent, got, u)
			}
		}
		if len(in) == 0 || len(in) == users || slices.Contains(in, notIn(percent)) {
			t.Errorf("%d %%: %d users are in", percent, len(in))
		}
	}
	// By hand: the first eight bytes of SHA-256("share-of-users|u-3"), modulo 10000.
	if !inShare("u-3", sharePercent) || inShare("u-1", sharePercent) || !inShare("u-1", morePercent) {
		t.Error("not the users whom the hash names")
	}
}

// What is left of a lane is found, and what somebody else has put in is not.
func TestWhatIsLeft(t *testing.T) {
	w := &World{}
	w.alice, w.bob, w.next = &member{lane: laneAlice}, &member{lane: laneBob}, &member{lane: laneNext}
	const theirs = "service search-1 search 127.0.0.1:1 map[]\nkey lane/declared/dev-carol/reviews x\nservice lane:dev-carol:reviews:box"
	if left := w.leftOf(theirs); left != "" {
		t.Errorf("somebody else's: %q", left)
	}
	for _, line := range []string{"service lane:dev2:reviews:demo-alice reviews 127.0.0.1:1 map[]", "check c lane:dev3:ratings:demo-bob", "key lane/declared/canary/details s"} {
		if left := w.leftOf(theirs + "\n" + line); left != line {
			t.Errorf("%q: %q", line, left)
		}
	}
}

// A lane that stays is said.
func TestALaneThatStays(t *testing.T) {
	emptyTemp(t)
	err := in(t, func(ctx context.Context, w *World) error {
		return w.api(ctx, http.MethodPut, "/v1/agent/service/register",
			map[string]any{"ID": "lane:dev2:ratings:demo-alice", "Name": "ratings", "Address": "127.0.0.1", "Port": 1}, nil)
	})
	if err == nil || !strings.Contains(err.Error(), "the lanes have left something in the registry") || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
