package tracemap

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"lane/pkg/http1"
)

// load reads a table from testdata; an unknown field is a mistake in it.
func load[T any](t testing.TB, name string) (rows []T) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

type format struct{ Header, Value, Tags, ID, Key string }

func (f *format) get(name string) string {
	switch {
	case strings.EqualFold(name, f.Header):
		return f.Value
	case strings.EqualFold(name, headerDatadogTags):
		return f.Tags
	}
	return ""
}

func read(t testing.TB, setting string, get func(string) string) Keys {
	t.Helper()
	s, err := ParseSources(setting)
	if err != nil {
		t.Fatal(err)
	}
	var k Keys
	s.Read(get, &k)
	return k
}

func TestFormats(t *testing.T) {
	good, bad := map[string]int{}, map[string]int{}
	for _, f := range load[format](t, "formats.json") {
		settings := []string{f.Header}
		if f.Header != "my-request-id" {
			settings = append(settings, Auto)
		}
		for _, s := range settings {
			k := read(t, s, f.get)
			switch {
			case f.ID == "":
				if k.Len() != 0 || k.ID().String() != "" {
					t.Errorf("%s: %q has the id %q", f.Header, f.Value, k.ID())
				}
			case k.Len() != 1 || k.ID().String() != f.ID || k.At(0).String() != f.Key:
				t.Errorf("%s: %q: %d keys, id %q, want key %q of %q", f.Header, f.Value, k.Len(), k.ID(), f.Key, f.ID)
			}
		}
		if f.ID == "" {
			bad[strings.ToLower(f.Header)]++
		} else {
			good[strings.ToLower(f.Header)]++
		}
	}
	for _, s := range auto {
		if n := strings.ToLower(s.header); good[n] == 0 || bad[n] == 0 {
			t.Errorf("%s: %d good values and %d bad ones in the table", n, good[n], bad[n])
		}
	}
}

// Ids that differ in a way that their systems see must not meet.
func TestDifferentIDsStayApart(t *testing.T) {
	seen := map[Key]string{}
	for _, f := range []format{
		{Header: "b3", Value: "463ac35c9f6413ad-e457b5a2e4d86bd1"},
		{Header: "x-b3-traceid", Value: "463ac35c9f6413ad0000000000000000"},
		{Header: "x-b3-traceid", Value: "0000000000000001463ac35c9f6413ae"},
		{Header: "x-request-id", Value: "463ac35c9f6413ad"}, // no hex id: any text
		{Header: "x-request-id", Value: "463AC35C9F6413AD"},
		{Header: "x-request-id", Value: "463ac35c9f6413ad,1"},
		{Header: "x-request-id", Value: "463ac35c9f6413ad,2"},
		{Header: "x-request-id", Value: "00000000-0000-0000-463a-c35c9f6413ad"},
		{Header: "x-request-id", Value: "463ac35c-9f64-13ad-0000-000000000000"},
		{Header: "sw8", Value: "1-" + "NDYzYWMzNWM5ZjY0MTNhZA==" + "-c2Vn-0----"}, // the text of the first
		{Header: "sw8", Value: "1-QUI=-c2Vn-0----"},
		{Header: "sw8", Value: "1-QWI=-c2Vn-0----"}, // AB and Ab
		{Header: "x-request-id", Value: "QUI="},
	} {
		k := read(t, f.Header, f.get)
		if k.Len() != 1 {
			t.Fatalf("%q: %d keys", f.Value, k.Len())
		}
		if other, ok := seen[k.At(0)]; ok {
			t.Errorf("%q and %q have one key", f.Value, other)
		}
		seen[k.At(0)] = f.Value
	}
}

// A long id is refused, never cut.
func TestLongIDs(t *testing.T) {
	for _, c := range []struct {
		header, long, longer string
	}{
		{"x-request-id", strings.Repeat("a", maxText), strings.Repeat("a", maxText+1)},
		{"my-request-id", strings.Repeat("a", maxText), strings.Repeat("a", maxText+1)},
		{"sw8", sky(strings.Repeat("QUFB", 42) + "QUE="), sky(strings.Repeat("QUFB", 43))},
	} {
		if k := read(t, c.header, (&format{Header: c.header, Value: c.long}).get); k.Len() != 1 || len(k.ID().String()) != maxText {
			t.Errorf("%s: an id of %d is refused", c.header, maxText)
		}
		if k := read(t, c.header, (&format{Header: c.header, Value: c.longer}).get); k.Len() != 0 {
			t.Errorf("%s: an id of more than %d is taken", c.header, maxText)
		}
	}
	whole := sky("QQ==") + strings.Repeat("x", 2047-len(sky("QQ==")))
	if k := read(t, "sw8", (&format{Header: "sw8", Value: whole}).get); k.Len() != 1 {
		t.Error("sw8 of 2047 bytes is refused")
	}
	if k := read(t, "sw8", (&format{Header: "sw8", Value: whole + "x"}).get); k.Len() != 0 {
		t.Error("sw8 of 2048 bytes is taken")
	}
}

func sky(trace string) string { return "1-" + trace + "-c2Vn-0-c3Zj-aW4=-L2E=-cA==" }

// everything is a head with each known header, all ids different.
var everything = http.Header{
	"Traceparent":        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01"},
	"B3":                 {"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1"},
	"X-B3-Traceid":       {"463ac35c9f6413ad48485a3953bb6124"},
	"Uber-Trace-Id":      {"deadbeef:deadbef0:0:1"},
	"Sw8":                {"1-QQ==-c2Vn-0-c3Zj-aW4=-L2E=-cA=="},
	"X-Datadog-Trace-Id": {"7"},
	"X-Datadog-Tags":     {"_dd.p.tid=4bf92f3577b34da6"},
	"X-Amzn-Trace-Id":    {"Root=1-5759e988-bd862e3fe1be46a994272793"},
	"X-Request-Id":       {"19603cb9-4729-9b3d-aea1-8eb7b646c3e6"},
	"X-My-Id":            {"mine"},
}

var everyKey = []string{"a3ce929d0e0e4736", "64fe8b2a57d3eff7", "48485a3953bb6124", "00000000deadbeef", "A",
	"0000000000000007", "e1be46a994272793", "19603cb9-4729-4b3d-aea1-8eb7b646c3e6"}

func text(k *Keys) (out []string) {
	for i := range k.Len() {
		out = append(out, k.At(i).String())
	}
	return out
}

func TestOrderOfSources(t *testing.T) {
	k := read(t, "", everything.Get)
	if got := text(&k); strings.Join(got, " ") != strings.Join(everyKey, " ") {
		t.Errorf("got  %v\nwant %v", got, everyKey)
	}
	if k.ID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("id %s", k.ID())
	}
	// The same of a head as it stands on the wire, in whatever letter case.
	var b strings.Builder
	b.WriteString("GET / HTTP/1.1\r\nHost: a\r\n")
	for name, values := range everything {
		for _, v := range values {
			b.WriteString(strings.ToLower(name) + ": " + v + "\r\n")
		}
	}
	var r http1.Request
	if err := http1.ParseRequest(b.String()+"\r\n", &r); err != nil {
		t.Fatal(err)
	}
	wire := read(t, Auto, r.Get)
	if got := text(&wire); strings.Join(got, " ") != strings.Join(everyKey, " ") {
		t.Errorf("from the wire %v", got)
	}
}

// One id in several headers is one key, and a reader is used again and again.
func TestKeysAreOfOneRequest(t *testing.T) {
	h := http.Header{"Traceparent": everything["Traceparent"], "X-B3-Traceid": {"a3ce929d0e0e4736"}, "X-Datadog-Trace-Id": {"11803532876627986230"}}
	k := read(t, Auto, everything.Get)
	var s Sources
	s.Read(h.Get, &k)
	if k.Len() != 1 || k.At(0).String() != "a3ce929d0e0e4736" {
		t.Errorf("%v", text(&k))
	}
	s.Read(http.Header{}.Get, &k)
	if k.Len() != 0 || k.ID() != (ID{}) {
		t.Errorf("nothing has %v, id %s", text(&k), k.ID())
	}
}

func TestOneHeaderIsUsedAlone(t *testing.T) {
	for i, s := range auto {
		if k := read(t, s.header, everything.Get); k.Len() != 1 || k.At(0).String() != everyKey[i] {
			t.Errorf("%s: %v, want %s", s.header, text(&k), everyKey[i])
		}
	}
	if k := read(t, " x-my-ID ", everything.Get); k.Len() != 1 || k.At(0).String() != "mine" {
		t.Errorf("a header of one's own: %v", text(&k))
	}
	if k := read(t, "x-your-id", everything.Get); k.Len() != 0 {
		t.Errorf("a header that is not there: %v", text(&k))
	}
}

func TestParseSources(t *testing.T) {
	for in, want := range map[string]string{"": Auto, "Auto": Auto, "Traceparent": "traceparent", "X-B3-TraceId": "x-b3-traceid", "My-Id": "my-id", "X-Content-Id": "x-content-id"} {
		if s, err := ParseSources(in); err != nil || s.String() != want {
			t.Errorf("%q is %q, %v; want %q", in, s.String(), err, want)
		}
	}
	for _, in := range []string{"a b", "a,b", "x-id:", "é", "a\x00", strings.Repeat("x", 200),
		"Cookie", "authorization", "Host", "x-lane-tag", "Content-Length", "baggage", "X-Forwarded-For", "connection"} {
		if s, err := ParseSources(in); err == nil {
			t.Errorf("%q is %q", in, s.String())
		}
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	var s Sources
	var k Keys
	if n := testing.AllocsPerRun(100, func() { s.Read(everything.Get, &k) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if k.Len() != len(auto) {
		t.Errorf("%d keys", k.Len())
	}
}

// Whatever a header holds, an id that comes out of it is printable, goes back in
// as itself where it is a form of its own, and has one key.
func FuzzRead(f *testing.F) {
	for _, c := range load[format](f, "formats.json") {
		f.Add(c.Header, c.Value, c.Tags)
	}
	f.Fuzz(func(t *testing.T, header, value, tags string) {
		s, err := ParseSources(header)
		if err != nil {
			return
		}
		in := format{Header: s.String(), Value: value, Tags: tags}
		var k, again Keys
		s.Read(in.get, &k)
		id := k.ID().String()
		if (k.Len() == 0) != (id == "") || k.Len() > 1 || len(id) > maxText || !printable(id) {
			t.Fatalf("%q: %d keys, id %q", value, k.Len(), id)
		}
		if k.Len() == 0 {
			return
		}
		key := k.At(0)
		switch key.kind {
		case kindHex64, kindHex128:
			hex, err := ParseSources("x-b3-traceid")
			if err != nil {
				t.Fatal(err)
			}
			hex.Read((&format{Header: "x-b3-traceid", Value: id}).get, &again)
			if key.lo == 0 && id != key.String() || key.lo != 0 && !strings.HasSuffix(id, key.String()) {
				t.Errorf("id %s, key %s", id, key)
			}
		case kindUUID, kindOpaque:
			s.Read((&format{Header: s.String(), Value: id}).get, &again)
		default:
			return
		}
		if again.Len() != 1 || again.At(0) != key {
			t.Errorf("%q: id %s, read again %v", value, id, text(&again))
		}
	})
}
