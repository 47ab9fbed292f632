package lane

import (
	"fmt"
	"strings"
)

// preset is another lane system's convention. A "*" in a carrier stands for the
// preset's argument, which follows its name after a colon.
type preset struct {
	name     string
	carriers []Carrier
	arg      string // the argument's default; empty: it takes none
}

func headers(names ...string) []Carrier {
	out := make([]Carrier, len(names))
	for i, n := range names {
		out[i] = Carrier{Header: n}
	}
	return out
}

func members(keys ...string) []Carrier {
	out := make([]Carrier, len(keys))
	for i, k := range keys {
		out[i] = Carrier{Header: "baggage", Member: k}
	}
	return out
}

// presets is the table of docs/routing.md, Presets, which also says what is left
// out and why.
func presets() []preset {
	return []preset{
		{name: "asm", carriers: headers("x-asm-prefer-tag")},
		{name: "azds", carriers: headers("azds-route-as")},
		{name: "baggage"}, // the default writes it already
		{name: "bridge", carriers: headers("kubernetes-route-as")},
		{name: "bytedance", carriers: headers("x-tt-env")},
		{name: "cloudwego", carriers: headers("rpc-persist-*"), arg: "lane"},
		{name: "dubbo", carriers: headers("dubbo.tag")},
		{name: "gefyra", carriers: headers("x-gefyra")},
		{name: "kratos", carriers: headers("x-md-global-*"), arg: "lane"},
		{name: "kt", carriers: headers("*"), arg: "version"},
		{name: "ktenv", carriers: headers("*"), arg: "x-virtual-env"},
		{name: "lane"},
		{name: "mirrord", carriers: members("mirrord-session")},
		{name: "mse", carriers: headers("x-mse-tag")},
		{name: "nepxion", carriers: headers("n-d-*"), arg: "env"},
		{name: "nocalhost-jaeger", carriers: headers("uberctx-trace")},
		{name: "nocalhost-zipkin", carriers: headers("baggage-trace")},
		{name: "okteto", carriers: members("okteto-divert")},
		{name: "okteto-legacy", carriers: headers("x-okteto-divert")},
		{name: "opensergo", carriers: headers("x-opensergo-traffic")},
		{name: "polaris", carriers: []Carrier{{Header: "service-lane", Prefix: "*/"}}, arg: "lane"},
		{name: "polaris-transitive", arg: "featureenv",
			carriers: headers("x-polaris-metadata-transitive-*", "x-sct-metadata-transitive-*")},
		{name: "sc-hint", carriers: headers("x-sc-lb-hint")},
		{name: "signadot", carriers: members("sd-routing-key", "sd-sandbox")},
		{name: "signadot-legacy", carriers: headers("ot-baggage-sd-routing-key", "ot-baggage-sd-sandbox",
			"uberctx-sd-routing-key", "uberctx-sd-sandbox")},
		{name: "telepresence", carriers: headers("*"), arg: "x-telepresence-intercept-id"},
	}
}

// PresetNames are the names that Preset knows, sorted.
func PresetNames() []string {
	all := presets()
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.name
	}
	return out
}

// Preset is the default carriers with those of another lane system, read and
// written, by its name as in "mse". Where the convention leaves a word open it
// may follow after a colon: "polaris:GROUP", "cloudwego:KEY", "kt:HEADER".
func Preset(name string) (Carriers, error) {
	c := DefaultCarriers()
	base, arg, given := strings.Cut(name, ":")
	for _, p := range presets() {
		if p.name != base {
			continue
		}
		if given && p.arg == "" {
			return Carriers{}, fmt.Errorf("preset %s takes nothing after a colon: %q", base, arg)
		}
		if !given {
			arg = p.arg
		}
		if p.arg != "" && !isToken(arg) {
			return Carriers{}, fmt.Errorf("preset %s: %q cannot be part of a header", base, arg)
		}
		for _, k := range p.carriers {
			k.Header = strings.ToLower(strings.Replace(k.Header, "*", arg, 1))
			k.Prefix = strings.Replace(k.Prefix, "*", arg, 1)
			c.Extra = append(c.Extra, k)
		}
		return c, nil
	}
	return Carriers{}, fmt.Errorf("no preset %q; there are %s", base, strings.Join(PresetNames(), ", "))
}

// isToken reports whether s is a token of RFC 9110, as header names are.
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && !strings.Contains("!#$%&'*+-.^_`|~", string(rune(c))) {
			return false
		}
	}
	return s != ""
}
