package chain

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

const gray = "gray"

// at is a time of the test's day.
func at(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }

// hop is one hop of trace t: what came and what went on, between two times.
func hop(front traffic.Front, service, tag string, went lane.Name, from, to int) Hop {
	return Hop{Front: front, Service: service, Tag: tag, Lane: went, Decision: lane.KindFallback, Start: at(from), TookMS: float64(to - from), TraceID: "t"}
}

func in(service, tag string, from, to int) Hop {
	return hop(traffic.FrontSidecar, service, tag, lane.Name(tag), from, to)
}

func out(service string, went lane.Name, from, to int) Hop {
	return hop(traffic.FrontForward, service, "", went, from, to)
}

func side(service string, hops ...Hop) Seen { return Seen{Hops: Hops{Service: service, Hops: hops}} }

func session(hops ...Hop) Seen { return Seen{Session: true, Hops: Hops{Hops: hops}} }

func strayed(h Hop, others int) Hop {
	h.Strayed, h.Others = true, others
	return h
}

func with(h Hop, change func(*Hop)) Hop {
	change(&h)
	return h
}

// shape is a chain as text: a link a line.
func shape(t Trace) string {
	var b strings.Builder
	for _, l := range t.Links {
		b.WriteString(strings.Repeat(" ", l.Depth) + l.From + ">" + l.To + " " + string(l.State) + "\n")
	}
	if t.Break != nil {
		b.WriteString(t.Break.String() + "\n")
	}
	for _, m := range append(t.Missing, t.Unseen...) {
		b.WriteString("- " + m + "\n")
	}
	return b.String() + string(t.Verdict)
}

func TestJudge(t *testing.T) {
	call := session(out("a", gray, 0, 100))
	gate := func(went lane.Name) Seen { return side("", hop(traffic.FrontGateway, "a", "", went, 1, 99)) }
	host := session(with(out("", "", 0, 100), func(h *Hop) { h.Decision = lane.KindExternal }))
	for _, c := range []struct {
		name string
		r    Rules
		seen []Seen
		want string
	}{
		{"gateway, a, b, c", Rules{}, []Seen{host, gate(gray), side("a", out("b", gray, 10, 80), in("a", gray, 5, 90)),
			side("b", in("b", gray, 12, 70), out("c", gray, 20, 60)), side("c", in("c", gray, 30, 50))},
			"session>another host outside\n gateway>a equal\n  a>b equal\n   b>c equal\ncomplete"},
		{"clocks of three machines", Rules{}, []Seen{call, side("a", in("a", gray, 90005, 90090), out("b", gray, 90010, 90080)),
			side("b", in("b", gray, -7000, -6900), out("c", gray, -6990, -6950)), side("c", in("c", gray, 50, 60))},
			"session>a equal\n a>b equal\n  b>c equal\ncomplete"},
		{"two calls, and one service twice", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), out("b", gray, 10, 20), out("b", gray, 30, 40)),
			side("b", in("b", gray, 11, 19), in("b", gray, 31, 39))},
			"session>a equal\n a>b equal\n a>b equal\ncomplete"},
		{"b passes on nothing", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), out("b", gray, 10, 80)),
			side("b", in("b", gray, 12, 70), strayed(out("c", "", 20, 60), 0)), side("c")},
			"session>a equal\n a>b equal\n  b>c missing\nBREAK between b and c: c got no tag; the trace header was not propagated by b\nbroken"},
		{"it may be another request's", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), strayed(out("c", "", 20, 60), 2)), side("c")},
			"session>a equal\n a>c unknown\nunknown"},
		{"the tag without the trace", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), strayed(out("c", gray, 20, 60), 0)), side("c")},
			"session>a equal\n a>c equal\n- c\nunknown"},
		{"the sidecar has forgotten", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), out("c", "", 20, 60)), side("c", in("c", "", 30, 40))},
			"session>a equal\n a>c missing\nBREAK between a and c: c got no tag; the trace was there, but the sidecar of a did not know its tag\nbroken"},
		{"taken off on the way", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), out("c", gray, 20, 60)), side("c", in("c", "", 30, 40))},
			"session>a equal\n a>c missing\nBREAK between a and c: c got no tag, though it was sent with it: it was taken off on the way\nbroken"},
		{"rewritten on the way", Rules{}, []Seen{call, side("a", in("a", "blue", 5, 90))},
			"session>a different\nBREAK between session and a: a got the tag \"blue\", though it was sent with it: it was taken off on the way\nbroken"},
		{"another lane's tag", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), out("c", "blue", 20, 60)), side("c", in("c", "blue", 30, 40))},
			"session>a equal\n a>c different\nBREAK between a and c: c got the tag \"blue\"; the trace was there, but the sidecar of a did not know its tag\nbroken"},
		{"past the proxy", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90)), side("c", in("c", "", 30, 40))},
			"session>a equal\na>c missing\nBREAK between a and c: c got no tag; the call did not go through the proxy of a\nbroken"},
		{"past the proxy, with the tag", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90)), side("c", in("c", gray, 30, 40))},
			"session>a equal\n>c equal\ncomplete"},
		{"no rule at the gateway", Rules{}, []Seen{host, gate(""), side("a", in("a", "baseline", 5, 90), out("b", "", 20, 40)), side("b", in("b", "baseline", 25, 30))},
			"session>another host outside\n gateway>a missing\n  a>b missing\nBREAK at gateway: no rule gave it the lane\nbroken"},
		{"only the first break is one", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), out("b", "", 10, 80)), side("b", in("b", "", 12, 70), out("c", "", 20, 60)), side("c", in("c", "", 30, 40))},
			"session>a equal\n a>b missing\n  b>c missing\nBREAK between a and b: b got no tag; the trace was there, but the sidecar of a did not know its tag\nbroken"},
		{"no sidecar", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), out("d", gray, 10, 20))},
			"session>a equal\n a>d equal\n- d\nunknown"},
		{"no sidecar, but it calls nobody", Rules{Ends: []string{"d"}}, []Seen{call, side("a", in("a", gray, 5, 90), out("d", gray, 10, 20))},
			"session>a equal\n a>d equal\ncomplete"},
		{"refused", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), with(out("d", gray, 10, 20), func(h *Hop) { h.Code = "E_NO_INSTANCE" }))},
			"session>a equal\n a>d unknown\nunknown"},
		{"another host", Rules{}, []Seen{call, side("a", in("a", gray, 5, 90), out("", "", 10, 20))},
			"session>a equal\n a>another host outside\ncomplete"},
		{"another host alone", Rules{}, []Seen{side("a", out("", "", 10, 20))}, "a>another host outside\nunknown"},
		{"the lane's own process", Rules{Expect: []Wanted{{"a", gray}}}, []Seen{session(with(out("a", gray, 0, 100), func(h *Hop) { h.Decision = lane.KindLaneMatch }),
			hop(traffic.FrontGuard, "a", gray, gray, 5, 90), out("b", gray, 10, 40)), side("b", in("b", gray, 12, 30))},
			"session>a equal\n a>b equal\ncomplete"},
		{"served by the wrong instance", Rules{Expect: []Wanted{{"a", gray}, {"a", "baseline"}, {"z", "baseline"}}}, []Seen{call, side("a", in("a", gray, 5, 90))},
			"session>a equal\n- a@gray\n- z@baseline\ncomplete"},
		{"no router has seen it", Rules{}, []Seen{call, side("a"), side("")}, "no_data"},
		{"nobody has seen anything", Rules{}, nil, "no_data"},
	} {
		c.r.Lane = gray
		if got := shape(Judge(c.r, "t", c.seen)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestSame(t *testing.T) {
	const id = "0123456789abcdef1123456789abcdef"
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{id, id, true},
		{id, strings.ToUpper(id), true},
		{id, "01234567-89ab-cdef-1123-456789abcdef", true},
		{id, "1123456789abcdef", true}, // a system of 64 bits
		{id, "ffffffffffffffff1123456789abcdef", false},
		{"ffffffffffffffff", "1123456789abcdef", false},
		{id, "", false},
		{"", "", false},
		{"any text", "any text", true},
		{"any text", "another", false},
	} {
		if Same(c.a, c.b) != c.want || Same(c.b, c.a) != c.want {
			t.Errorf("Same(%q, %q) is not %v", c.a, c.b, c.want)
		}
	}
}

// A router gives what is of the trace, and the calls that are without it while the
// service works on it; of those that came in by themselves nothing.
func TestFind(t *testing.T) {
	log := traffic.NewLog(16)
	put := func(front traffic.Front, service, trace string, lan lane.Name, from, to int) {
		log.Put(traffic.Exchange{Front: front, Service: service, TraceID: trace, Lane: lan, Start: at(from), Took: at(to).Sub(at(from)),
			URL: "http://secret/"})
	}
	put(traffic.FrontForward, "early", "", "", 5, 9)
	put(traffic.FrontForward, "c", "", "", 15, 19)
	put(traffic.FrontForward, "new", "another", "", 16, 19)
	put(traffic.FrontForward, "theirs", "t2", "", 17, 19)
	put(traffic.FrontForward, "blue", "", "blue", 17, 19)
	put(traffic.FrontForward, "", "", "", 17, 19)
	put(traffic.FrontForward, "d", "t1", gray, 18, 19)
	put(traffic.FrontSidecar, "b", "t2", "", 17, 40)
	put(traffic.FrontSidecar, "b", "t1", gray, 10, 20)
	put(traffic.FrontForward, "late", "", "", 25, 29)
	log.Put(traffic.Exchange{Front: traffic.FrontGateway, Service: "b", TraceID: "own", ClientTraceID: "t1", Start: at(9)})
	var got []string
	for _, h := range Find(log.Each, "t1") {
		got = append(got, h.Service+" "+strconv.FormatBool(h.Strayed)+" "+strconv.Itoa(h.Others))
	}
	want := []string{"d false 0", "b false 0", "b false 0", "c true 0", "new true 0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Find(log.Each, "nobody"); got == nil || len(got) != 0 {
		t.Errorf("%v, want an empty list", got)
	}
}
