package lane

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMergeBaggage(t *testing.T) {
	// Almost full: 8184 bytes, 8 short of the limit; ",lane=x" still fits.
	almost := "k=" + strings.Repeat("v", 8192-7-2)
	for _, tc := range []struct {
		name  string
		lines []string
		value string
		want  []string
		full  bool
	}{
		{"none", nil, "gray", []string{"lane=gray"}, false},
		{"an empty line", []string{""}, "gray", []string{"lane=gray"}, false},
		{"a blank last line", []string{"a=1", " "}, "gray", []string{"a=1", "lane=gray"}, false},
		{"after others", []string{"a=1;p=%20 , b = 2"}, "gray", []string{"a=1;p=%20 , b = 2,lane=gray"}, false},
		{"after a trailing comma", []string{"a=1,"}, "gray", []string{"a=1,lane=gray"}, false},
		{"on the last of several lines", []string{"a=1", "b=2"}, "gray", []string{"a=1", "b=2,lane=gray"}, false},
		{"in place, with properties", []string{"a=1, lane = old ;p=1; q,b=2"}, "gray", []string{"a=1, lane = gray ;p=1; q,b=2"}, false},
		{"unchanged", []string{"a=1,  lane=gray;p , b=2,"}, "gray", []string{"a=1,  lane=gray;p , b=2,"}, false},
		{"duplicates go", []string{"lane=a,x=1,lane=b", "lane=c", "y=2"}, "gray", []string{"lane=gray,x=1", "y=2"}, false},
		{"other keys stay", []string{"Lane=a,lanes=b,xlane=c;lane=d"}, "gray", []string{"Lane=a,lanes=b,xlane=c;lane=d,lane=gray"}, false},
		{"malformed members stay", []string{"lane,=x,;,lane;y=1"}, "gray", []string{"lane,=x,;,lane;y=1,lane=gray"}, false},
		{"encoding", nil, "a b,c;d\"%\\ä", []string{"lane=a%20b%2Cc%3Bd%22%25%5C%C3%A4"}, false},
		{"equals signs in a value", []string{"lane=a=b=c"}, "gray", []string{"lane=gray"}, false},
		{"64 members are full", []string{strings.Repeat("k=v,", 64)}, "gray", []string{strings.Repeat("k=v,", 64)}, true},
		{"63 members are not", []string{strings.Repeat("k=v,", 63)}, "gray", []string{strings.Repeat("k=v,", 63) + "lane=gray"}, false},
		{"64 members, ours is one", []string{strings.Repeat("k=v,", 63) + "lane=a"}, "gray", []string{strings.Repeat("k=v,", 63) + "lane=gray"}, false},
		{"bytes just fit", []string{almost}, "x", []string{almost + ",lane=x"}, false},
		{"bytes just do not", []string{almost}, "xy", []string{almost}, true},
		{"over two lines", []string{"a=1", almost}, "x", []string{"a=1", almost}, true},
		{"too much already, ours unchanged", []string{"lane=x," + strings.Repeat("k=v,", 3000)}, "x", []string{"lane=x," + strings.Repeat("k=v,", 3000)}, false},
		{"ours grows past the limit: better none than a wrong one", []string{almost + ",lane=x"}, "xy", []string{almost}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := slices.Clone(tc.lines)
			got, err := MergeBaggage(tc.lines, "lane", tc.value)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if errors.Is(err, ErrBaggageFull) != tc.full {
				t.Errorf("error %v", err)
			}
			if !slices.Equal(before, tc.lines) {
				t.Error("the lines of the caller have changed")
			}
		})
	}
	for _, key := range []string{"", "a b", "a=b", "a,b", "ä"} {
		if got, err := MergeBaggage([]string{"x=1"}, key, "v"); err == nil || !slices.Equal(got, []string{"x=1"}) {
			t.Errorf("key %q: %q, %v", key, got, err)
		}
	}
}

// baggageHolds is what every merge keeps: it is idempotent, it changes nothing
// of the others, what it wrote is read back, and it passes no limit that was
// kept before.
func baggageHolds(t interface{ Fatalf(string, ...any) }, lines []string, key, value string) {
	once, err := MergeBaggage(lines, key, value)
	again, err2 := MergeBaggage(once, key, value)
	if !slices.Equal(once, again) || (err == nil) != (err2 == nil) {
		t.Fatalf("not idempotent:\n%q -> %q (%v)\n%q (%v)", lines, once, err, again, err2)
	}
	if others, before := foreign(once, key), foreign(lines, key); !slices.Equal(others, before) {
		t.Fatalf("others changed: %q -> %q", before, others)
	}
	got, ok := BaggageValue(once, key)
	switch {
	case err == nil && (!ok || got != value):
		t.Fatalf("wrote %q, read %q (%v) from %q", value, got, ok, once)
	case err != nil && isToken(key) && ok:
		t.Fatalf("full, and yet %q is there: %q", got, once)
	case baggageFits(lines) && !baggageFits(once):
		t.Fatalf("past the limits: %d bytes", bytesOf(once))
	}
	if isToken(key) {
		gone := RemoveBaggage(once, key)
		if _, ok := BaggageValue(gone, key); ok || !slices.Equal(foreign(gone, key), foreign(lines, key)) {
			t.Fatalf("removed from %q: %q", once, gone)
		}
	}
}

// foreign is every non-empty member of another key, byte for byte, in order.
func foreign(lines []string, key string) (out []string) {
	for _, l := range lines {
		for raw := range strings.SplitSeq(l, ",") {
			if m := parseMember(raw); !blank(raw) && (m.key != key || key == "") {
				out = append(out, raw)
			}
		}
	}
	return out
}

func TestBaggageProperties(t *testing.T) {
	piece := rapid.OneOf(rapid.SampledFrom([]string{"lane=a", "lane=b;p=1", " lane = c ", "x=1", "y=2;q=3", "", " ", "lane", "lane;x=1", "=", ";", "a==b", "lane=", "k=" + strings.Repeat("v", 4090)}), rapid.String())
	check(t, func(t *rapid.T) {
		lines := make([]string, rapid.IntRange(0, 3).Draw(t, "lines"))
		for i := range lines {
			lines[i] = strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(t, "pieces"), ",")
		}
		baggageHolds(t, lines, rapid.SampledFrom([]string{"lane", "lane", "x", "a b", ""}).Draw(t, "key"),
			rapid.OneOf(rapid.SampledFrom([]string{"gray", "", "a,b", "%41"}), rapid.String()).Draw(t, "value"))
	})
}

func FuzzBaggage(f *testing.F) {
	f.Add("a=1,lane=x;p=1", "lane=y", "lane", "gray")
	f.Add("", "", "lane", "")
	f.Add("lane=a,lane=b,,", " ", "lane", "a b%")
	f.Add(strings.Repeat("k=v,", 63), "lane="+strings.Repeat("x", 8000), "lane", strings.Repeat("y", 300))
	f.Fuzz(func(t *testing.T, one, two, key, value string) {
		baggageHolds(t, []string{one, two}, key, value)
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add("X-Lane-Tag", "gray", "x-lane-tag", "blue", "a=1,lane=x")
	f.Add("x-mse-tag", " gray , gray", "X-Lane-Hops", "99999999999", "lane=%2D")
	f.Add("", "", "\u212a", "\x00", ",;=")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, baggage string) {
		for _, preset := range []string{"lane", "mse", "signadot", "polaris"} {
			c := mustPreset(t, preset)
			h := headerMap{k1: {v1}, k2: {v2, v1}, "Baggage": {baggage}}
			tag := c.Read(h)
			if (tag.Kind == TagLane) != (tag.Lane != "") || tag.Kind == TagLane && !valid(string(tag.Lane)) {
				t.Fatalf("%v read as %+v", h, tag)
			}
			if n, _ := Hops(h); n < 0 {
				t.Fatalf("hops %d", n)
			}
			full := c.Write(h, "dev-alice")
			if got := c.Read(h); got.Lane != "dev-alice" || len(got.Conflict) > 0 {
				t.Fatalf("written and read %+v from %v", got, h)
			}
			again := cloneHeaders(h)
			full2 := c.Write(again, "dev-alice")
			if diff := cmp.Diff(h, again); diff != "" || len(full) != len(full2) {
				t.Fatalf("writing twice differs:\n%s", diff)
			}
			c.Strip(h)
			if got := c.Read(h); got.Kind != TagNone {
				t.Fatalf("left after Strip: %+v in %v", got, h)
			}
			for k := range h {
				if strings.EqualFold(k, HeaderTag) || strings.EqualFold(k, HeaderHops) || strings.EqualFold(k, HeaderGuard) {
					t.Fatalf("left after Strip: %q", k)
				}
			}
		}
	})
}

func FuzzTag(f *testing.F) {
	for _, s := range []string{"", " ", "gray", "\tgray ", "Gray", "baseline", "a-", "-a", strings.Repeat("a", 63), strings.Repeat("a", 64), "ä", "a\nb", "\u00a0gray"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		tag := ParseTag(raw)
		v := strings.Trim(raw, " \t")
		if tag.Raw != raw || tag.Value() != v || (tag.Kind == TagNone) != (v == "") {
			t.Fatalf("%q: %+v", raw, tag)
		}
		if tag.Kind == TagLane && (string(tag.Lane) != v || !valid(v) || len(v) > 63) {
			t.Fatalf("%q is no lane", raw)
		}
		n, err := ParseName(raw)
		if err == nil && (string(n) != raw || ParseTag(raw).Kind != TagLane) {
			t.Fatalf("%q is a name and no tag", raw)
		}
		var bad *NameError
		if errors.As(err, &bad) && bad.Suggest != "" {
			if _, err := ParseName(bad.Suggest); err != nil {
				t.Fatalf("%q: the suggestion %q is no name: %v", raw, bad.Suggest, err)
			}
		}
	})
}
