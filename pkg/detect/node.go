package detect

import (
	"encoding/json"
	"path"
	"strconv"
	"strings"
)

// nodeRules: a package's name, or a scope.
var nodeRules = []struct {
	pkg string
	rule
}{
	{"@opentelemetry/", rule{"OpenTelemetry", "baggage", otelWhy, 0}},
	{"@nestjs/core", rule{"Nest", "", "", 3000}},
	{"express", rule{"Express", "", "", 3000}},
	{"fastify", rule{"Fastify", "", "", 3000}},
	{"koa", rule{"Koa", "", "", 3000}},
	{"next", rule{"Next.js", "", "", 3000}},
}

func readNode(r *reader) (fromFile, bool) {
	const name = "package.json"
	b, ok := r.file(name)
	if !ok {
		return fromFile{}, false
	}
	var p struct {
		Name         string            `json:"name"`
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(b, &p); err != nil {
		r.note(name, err.Error())
		return fromFile{}, false
	}
	out := fromFile{name: name}
	// @scope/name: the scope is the company.
	out.found.Service, out.found.ServiceFrom = path.Base("/"+p.Name), name
	for _, rule := range nodeRules {
		best := ""
		for dep := range p.Dependencies {
			if dep == rule.pkg || strings.HasSuffix(rule.pkg, "/") && strings.HasPrefix(dep, rule.pkg) {
				if best == "" || dep < best {
					best = dep
				}
			}
		}
		if best != "" {
			out.rules = append(out.rules, match{rule.rule, best})
		}
	}
	return out, true
}

var expose = pattern(`(?mi)^[ \t]*EXPOSE[ \t]+([0-9]{1,5})(?:/tcp)?\b`)

// readExposed are the ports that a Dockerfile exposes.
func readExposed(r *reader) []int {
	b, ok := r.file("Dockerfile")
	if !ok {
		return nil
	}
	var out []int
	for _, m := range expose().FindAllSubmatch(b, -1) {
		if p, err := strconv.Atoi(string(m[1])); err == nil {
			out = append(out, p)
		}
	}
	return out
}
