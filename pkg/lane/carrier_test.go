package lane

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type headerMap = map[string][]string

func TestCarriersRead(t *testing.T) {
	mse, polaris := mustPreset(t, "mse"), mustPreset(t, "polaris:orders")
	aliased := Carriers{Header: HeaderTag, Aliases: []string{"X-Gray-Tag", "x-old"}, Member: "lane", BaselineNames: []string{"main"}}
	for _, tc := range []struct {
		name     string
		c        Carriers
		h        headerMap
		kind     TagKind
		lane     Name
		raw      string
		conflict []string
	}{
		{"nothing", DefaultCarriers(), nil, TagNone, "", "", nil},
		{"no carrier", DefaultCarriers(), headerMap{"Accept": {"*/*"}}, TagNone, "", "", nil},
		{"canonical", DefaultCarriers(), headerMap{"X-Lane-Tag": {"gray"}}, TagLane, "gray", "gray", nil},
		{"lower case", DefaultCarriers(), headerMap{"x-lane-tag": {"gray"}}, TagLane, "gray", "gray", nil},
		{"odd case", DefaultCarriers(), headerMap{"x-LANE-tag": {"gray"}}, TagLane, "gray", "gray", nil},
		{"a longer name is another header", DefaultCarriers(), headerMap{"x-lane-tags": {"gray"}}, TagNone, "", "", nil},
		{"white space", DefaultCarriers(), headerMap{"x-lane-tag": {" \tgray\t "}}, TagLane, "gray", " \tgray\t ", nil},
		{"empty value", DefaultCarriers(), headerMap{"x-lane-tag": {""}}, TagNone, "", "", nil},
		{"no value", DefaultCarriers(), headerMap{"x-lane-tag": {}}, TagNone, "", "", nil},
		{"explicit baseline", DefaultCarriers(), headerMap{"x-lane-tag": {"stable"}}, TagBaseline, "", "stable", nil},
		{"a baseline name of the configuration", aliased, headerMap{"x-lane-tag": {"main"}}, TagBaseline, "", "main", nil},
		{"no such baseline name", DefaultCarriers(), headerMap{"x-lane-tag": {"main"}}, TagLane, "main", "main", nil},
		{"capital letters", DefaultCarriers(), headerMap{"x-lane-tag": {"Gray"}}, TagInvalid, "", "Gray", nil},
		{"two equal lines", DefaultCarriers(), headerMap{"X-Lane-Tag": {"gray", "gray"}}, TagLane, "gray", "gray", nil},
		{"two different lines", DefaultCarriers(), headerMap{"X-Lane-Tag": {"gray", "blue"}}, TagInvalid, "", "gray, blue", []string{"gray", "blue"}},
		{"two joined values", DefaultCarriers(), headerMap{"X-Lane-Tag": {"gray, blue"}}, TagInvalid, "", "gray, blue", []string{"gray", "blue"}},
		{"one joined value", DefaultCarriers(), headerMap{"X-Lane-Tag": {"gray,gray"}}, TagLane, "gray", "gray", nil},
		{"an empty line and one", DefaultCarriers(), headerMap{"X-Lane-Tag": {"", "gray"}}, TagLane, "gray", "gray", nil},
		{"only commas", DefaultCarriers(), headerMap{"X-Lane-Tag": {",", " , "}}, TagNone, "", "", nil},
		{"two spellings that agree", DefaultCarriers(), headerMap{"X-Lane-Tag": {"gray"}, "x-lane-tag": {"gray"}}, TagLane, "gray", "gray", nil},
		{"two spellings that differ", DefaultCarriers(), headerMap{"X-Lane-Tag": {"gray"}, "x-lane-tag": {"blue"}}, TagInvalid, "", "gray, blue", []string{"gray", "blue"}},
		{"baggage", DefaultCarriers(), headerMap{"Baggage": {"a=1,lane=gray;p=1,b=2"}}, TagLane, "gray", "gray", nil},
		{"baggage, other key", DefaultCarriers(), headerMap{"Baggage": {"Lane=gray,lane2=x,xlane=y"}}, TagNone, "", "", nil},
		{"baggage, first counts", DefaultCarriers(), headerMap{"Baggage": {"lane=gray", "lane=blue"}}, TagLane, "gray", "gray", nil},
		{"baggage, encoded", DefaultCarriers(), headerMap{"Baggage": {"lane=dev%2Dalice"}}, TagLane, "dev-alice", "dev-alice", nil},
		{"baggage, badly encoded", DefaultCarriers(), headerMap{"Baggage": {"lane=%zz"}}, TagInvalid, "", "%zz", nil},
		{"baggage, empty", DefaultCarriers(), headerMap{"Baggage": {""}}, TagNone, "", "", nil},
		{"baggage, empty value", DefaultCarriers(), headerMap{"Baggage": {"lane="}}, TagNone, "", "", nil},
		{"both agree", DefaultCarriers(), headerMap{"X-Lane-Tag": {"gray"}, "Baggage": {"lane=gray"}}, TagLane, "gray", "gray", nil},
		{"both differ: the canonical", DefaultCarriers(), headerMap{"X-Lane-Tag": {"gray"}, "Baggage": {"lane=blue"}}, TagLane, "gray", "gray", []string{"blue"}},
		{"the baseline over a lane in baggage", DefaultCarriers(), headerMap{"X-Lane-Tag": {"baseline"}, "Baggage": {"lane=blue"}}, TagBaseline, "", "baseline", []string{"blue"}},
		{"invalid canonical is not passed over", DefaultCarriers(), headerMap{"X-Lane-Tag": {"a_b"}, "Baggage": {"lane=blue"}}, TagInvalid, "", "a_b", nil},
		{"aliases in order", aliased, headerMap{"x-old": {"three"}, "x-gray-tag": {"two"}}, TagLane, "two", "two", []string{"three"}},
		{"all differ", aliased, headerMap{"x-lane-tag": {"one"}, "x-old": {"three"}, "x-gray-tag": {"two"}, "baggage": {"lane=two"}}, TagLane, "one", "one", []string{"two", "three"}},
		{"preset", mse, headerMap{"X-Mse-Tag": {"gray"}}, TagLane, "gray", "gray", nil},
		{"no preset", DefaultCarriers(), headerMap{"X-Mse-Tag": {"gray"}}, TagNone, "", "", nil},
		{"preset's prefix", polaris, headerMap{"Service-Lane": {"orders/gray"}}, TagLane, "gray", "gray", nil},
		{"another's prefix beside ours", polaris, headerMap{"Service-Lane": {"billing/gray", "orders/blue"}}, TagLane, "blue", "blue", nil},
		{"two of our prefix", polaris, headerMap{"Service-Lane": {"orders/gray, orders/blue"}}, TagInvalid, "", "orders/gray, orders/blue", []string{"orders/gray", "orders/blue"}},
		{"another's prefix", polaris, headerMap{"Service-Lane": {"billing/gray"}}, TagNone, "", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := cloneHeaders(tc.h)
			got := tc.c.Read(tc.h)
			got.From, got.Places = "", nil
			want := Tag{Kind: tc.kind, Lane: tc.lane, Raw: tc.raw, Conflict: tc.conflict}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.h); diff != "" {
				t.Errorf("Read changed the headers:\n%s", diff)
			}
		})
	}
}

func TestReadBoundsTheValues(t *testing.T) {
	many := strings.Repeat("a,", 3) + strings.Repeat("b,c,d,e,f,", 50000)
	c := DefaultCarriers()
	got := c.Read(headerMap{"x-lane-tag": {many}})
	if got.Kind != TagInvalid || len(got.Conflict) != maxDistinct {
		t.Errorf("kind %v with %d values", got.Kind, len(got.Conflict))
	}
}

func TestCarriersWrite(t *testing.T) {
	for _, tc := range []struct {
		name    string
		preset  string
		h       headerMap
		tag     string
		want    headerMap
		warning bool
	}{
		{"into nothing", "lane", headerMap{}, "gray", headerMap{"x-lane-tag": {"gray"}, "baggage": {"lane=gray"}}, false},
		{"over another spelling", "lane", headerMap{"X-Lane-Tag": {"blue", "red"}, "X-LANE-TAG": {"x"}, "Baggage": {"a=1"}}, "gray",
			headerMap{"x-lane-tag": {"gray"}, "baggage": {"a=1,lane=gray"}}, false},
		{"the baseline", "lane", headerMap{}, "baseline", headerMap{"x-lane-tag": {"baseline"}, "baggage": {"lane=baseline"}}, false},
		{"nothing removes it", "lane", headerMap{"X-Lane-Tag": {"gray"}, "Baggage": {"lane=gray"}, "A": {"b"}}, "", headerMap{"A": {"b"}}, false},
		{"nothing leaves foreign baggage", "lane", headerMap{"Baggage": {"a=1;p , lane=gray,b=2"}}, " ", headerMap{"baggage": {"a=1;p ,b=2"}}, false},
		{"a preset's header", "mse", headerMap{}, "gray", headerMap{"x-lane-tag": {"gray"}, "x-mse-tag": {"gray"}, "baggage": {"lane=gray"}}, false},
		{"a preset's prefix", "polaris:orders", headerMap{}, "gray", headerMap{"x-lane-tag": {"gray"}, "service-lane": {"orders/gray"}, "baggage": {"lane=gray"}}, false},
		{"another's prefix stays", "polaris:orders", headerMap{"Service-Lane": {"billing/blue"}}, "gray",
			headerMap{"x-lane-tag": {"gray"}, "Service-Lane": {"billing/blue"}, "baggage": {"lane=gray"}}, true},
		{"another's prefix stays when ours goes", "polaris:orders", headerMap{"Service-Lane": {"billing/blue"}, "X-Lane-Tag": {"a_b"}}, "",
			headerMap{"Service-Lane": {"billing/blue"}}, false},
		{"our prefix is written over", "polaris:orders", headerMap{"Service-Lane": {"orders/blue"}}, "gray",
			headerMap{"x-lane-tag": {"gray"}, "service-lane": {"orders/gray"}, "baggage": {"lane=gray"}}, false},
		{"our prefix goes", "polaris:orders", headerMap{"Service-Lane": {"orders/a_b"}}, "", headerMap{}, false},
		{"a preset's members", "signadot", headerMap{"Baggage": {"sd-sandbox=old"}}, "gray",
			headerMap{"x-lane-tag": {"gray"}, "baggage": {"sd-sandbox=gray,sd-routing-key=gray,lane=gray"}}, false},
		{"a preset knows no baseline", "dubbo", headerMap{"Dubbo.tag": {"gray"}}, "baseline", headerMap{"x-lane-tag": {"baseline"}, "baggage": {"lane=baseline"}}, false},
		{"a full baggage stays", "lane", headerMap{"Baggage": {strings.Repeat("k=v,", 63) + "k=v"}}, "gray",
			headerMap{"x-lane-tag": {"gray"}, "baggage": {strings.Repeat("k=v,", 63) + "k=v"}}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := mustPreset(t, tc.preset)
			for i := range 2 { // twice is once
				warnings := c.Write(tc.h, tc.tag)
				if diff := cmp.Diff(tc.want, tc.h); diff != "" {
					t.Errorf("writing %d (-want +got):\n%s", i+1, diff)
				}
				if (len(warnings) > 0) != tc.warning {
					t.Errorf("writing %d: warnings %q", i+1, warnings)
				}
			}
		})
	}
}

func TestCarriersWriteOwnHeader(t *testing.T) {
	c := Carriers{Header: "X-Env", Aliases: []string{"x-lane-tag"}}
	h := headerMap{"X-Lane-Tag": {"blue"}}
	c.Write(h, "gray")
	if diff := cmp.Diff(headerMap{"x-env": {"gray"}, "X-Lane-Tag": {"blue"}}, h); diff != "" {
		t.Errorf("an alias is read only, and there is no member (-want +got):\n%s", diff)
	}
	if got := c.Read(h); got.Lane != "gray" || !slices.Equal(got.Conflict, []string{"blue"}) {
		t.Errorf("read back %+v", got)
	}
	c.Strip(h)
	if len(h) > 0 {
		t.Errorf("left after Strip: %v", h)
	}
}

func TestCarriersStrip(t *testing.T) {
	c := mustPreset(t, "signadot")
	c.Aliases = []string{"x-gray-tag"}
	h := headerMap{"X-Lane-Tag": {"gray"}, "x-lane-tag": {"gray"}, "X-Gray-Tag": {"gray"}, "X-Lane-Hops": {"2"}, "x-lane-GUARD": {"bounced"}, "X-Lane-Via": {"0123456789abcdef"},
		"Baggage":     {"a=1;x=%20,  lane=gray ,b=2", "lane=blue", "sd-routing-key=gray,c=3"},
		"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "X-Mse-Tag": {"foreign"}}
	want := headerMap{"baggage": {"a=1;x=%20,b=2", "c=3"}, "Traceparent": h["Traceparent"], "X-Mse-Tag": {"foreign"}}
	c.Strip(h)
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	only := headerMap{"Baggage": {"lane=gray"}}
	c.Strip(only)
	if len(only) > 0 {
		t.Errorf("a baggage of ours alone is left: %v", only)
	}
}

func TestPresets(t *testing.T) {
	all := PresetNames()
	if !slices.IsSorted(all) || !slices.Contains(all, "mse") || slices.Contains(all, "kardinal") {
		t.Errorf("names %v", all)
	}
	for _, n := range all {
		c := mustPreset(t, n)
		h := headerMap{}
		c.Write(h, "dev-alice")
		if got := c.Read(h); got.Lane != "dev-alice" || got.Conflict != nil {
			t.Errorf("preset %s: wrote %v, read %+v", n, h, got)
		}
		if h[HeaderTag] == nil || !strings.Contains(h["baggage"][0], "lane=dev-alice") {
			t.Errorf("preset %s leaves our own carriers out: %v", n, h)
		}
		for k := range h {
			if k != strings.ToLower(k) {
				t.Errorf("preset %s writes the key %q", n, k)
			}
		}
		// The preset's carrier alone is enough to be read.
		for _, e := range c.Extra {
			if e.Member == "" {
				one := headerMap{strings.ToUpper(e.Header): {e.Prefix + "dev-bob"}}
				if got := c.Read(one); got.Lane != "dev-bob" {
					t.Errorf("preset %s: %v read as %+v", n, one, got)
				}
			}
		}
		c.Strip(h)
		if len(h) > 0 {
			t.Errorf("preset %s: Strip leaves %v", n, h)
		}
	}
	for name, header := range map[string]string{"kt:X-Mark": "x-mark", "cloudwego:env": "rpc-persist-env", "polaris-transitive:lane": "x-polaris-metadata-transitive-lane"} {
		if c := mustPreset(t, name); c.Extra[0].Header != header {
			t.Errorf("preset %s writes %q, want %q", name, c.Extra[0].Header, header)
		}
	}
	for _, bad := range []string{"", "kardinal", "MSE", "mse:x", "kt:", "kt:a b", "polaris:a\r\nb", "polaris:ä"} {
		if _, err := Preset(bad); err == nil {
			t.Errorf("preset %q has no error", bad)
		}
	}
}

func TestHops(t *testing.T) {
	for _, tc := range []struct {
		h    headerMap
		want int
		ok   bool
	}{
		{nil, 0, true},
		{headerMap{"X-Lane-Hops": {"3"}}, 3, true},
		{headerMap{"x-lane-hops": {" 3\t"}}, 3, true},
		{headerMap{"x-lane-hops": {""}}, 0, true},
		{headerMap{"x-lane-hops": {"3", "7"}}, 7, true},
		{headerMap{"x-lane-hops": {"99999999999999999999"}}, 1<<31 - 1, true},
		{headerMap{"x-lane-hops": {"three"}}, 0, false},
		{headerMap{"x-lane-hops": {"-1"}}, 0, false},
		{headerMap{"x-lane-hops": {"+1"}}, 0, false},
		{headerMap{"x-lane-hops": {"1.5"}}, 0, false},
		{headerMap{"x-lane-hops": {"0x10"}}, 0, false},
		{headerMap{"x-lane-hops": {"x", "5"}}, 5, false},
	} {
		n, ok := Hops(tc.h)
		if n != tc.want || ok != tc.ok {
			t.Errorf("Hops(%v) = %d, %v, want %d, %v", tc.h, n, ok, tc.want, tc.ok)
		}
	}
	h := headerMap{"X-Lane-Hops": {"3"}}
	WriteHops(h, 4)
	if diff := cmp.Diff(headerMap{"x-lane-hops": {"4"}}, h); diff != "" {
		t.Error(diff)
	}
}

func mustPreset(t *testing.T, name string) Carriers {
	t.Helper()
	c, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func cloneHeaders(h headerMap) headerMap {
	out := maps.Clone(h)
	for k, v := range out {
		out[k] = slices.Clone(v)
	}
	return out
}
