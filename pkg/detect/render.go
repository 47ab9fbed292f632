package detect

import (
	"fmt"
	"strconv"
	"strings"
)

// First is what a first lane.yaml says.
type First struct {
	Service string // empty: an example, commented out
	Port    int    // 0: unknown, an example, commented out
	Health  string
	Preset  string
	// Notes stand above the services and the preset; each may be empty.
	ServiceNote, PresetNote string
}

// Render is the text of a first lane.yaml, with what else can be set in
// comments.
func Render(f First) []byte {
	var b strings.Builder
	b.WriteString(`# Settings of lane for this repository. lane config shows every setting that
# is in effect, and where it comes from.

`)
	service, port := f.Service, f.Port
	if service == "" {
		service = "my-service"
	}
	if port == 0 {
		port = 8080
	}
	line := service + ": { port: " + strconv.Itoa(port)
	if f.Health != "" {
		line += ", health: " + scalar(f.Health)
	}
	line += " }"
	note(&b, "The services that you run, by their names in the registry.", f.ServiceNote)
	if f.Service == "" || f.Port == 0 {
		fmt.Fprintf(&b, "# services:\n#   %s\n\n", line)
	} else {
		fmt.Fprintf(&b, "services:\n  %s\n\n", line)
	}

	note(&b, "The header that carries the tag, besides x-lane-tag and baggage.", f.PresetNote)
	preset := f.Preset
	if preset == "" {
		preset = "lane"
	}
	fmt.Fprintf(&b, "preset: %s\n\n", scalar(preset))
	b.WriteString(`# More headers, or presets of other systems, that are read as well.
# accept: [mse, x-old-lane]

# shared: registered under the service's own name. isolated: under a name that
# only lane-aware callers find.
# register: shared

# A service that the lane lacks: fallback (to the baseline, and shown) or fail.
# no_match: fallback

# More names for a service, and hosts outside the registry that may see the tag.
# hosts: { orders.test.example: ` + service + ` }
# colored: ["*.partner.example"]

# Paths that health probes call without a tag.
# probes: [/healthz]

# The registry. Tokens never stand here: name a file, or set CONSUL_HTTP_TOKEN.
# consul:
#   address: 127.0.0.1:8500
#   datacenter: dc1
#   token_file: ~/.consul-token
`)
	return []byte(b.String())
}

func note(b *strings.Builder, lines ...string) {
	for _, l := range lines {
		for part := range strings.SplitSeq(l, "\n") {
			if part = strings.TrimSpace(part); part != "" {
				b.WriteString("# " + part + "\n")
			}
		}
	}
}

// scalar writes a word for YAML, quoted where it holds more than the letters
// that mean nothing to it.
func scalar(s string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.-"
	if s != "" && strings.Trim(s, safe) == "" && !strings.HasPrefix(s, "-") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
