package detect

import (
	"bytes"
	"encoding/xml"
	"strconv"
	"strings"
)

// javaRules: group and artifact as in Maven's coordinates, each a prefix.
var javaRules = []struct {
	coordinates string
	rule
}{
	{"com.tencent.cloud:", rule{"Spring Cloud Tencent", "polaris-transitive", "it passes X-Polaris-Metadata-Transitive-* headers on", 8080}},
	{"com.nepxion:", rule{"Nepxion Discovery", "nepxion", "it passes n-d-* headers on", 8080}},
	{"org.apache.dubbo:", rule{"Dubbo", "dubbo", "Dubbo passes the attachment dubbo.tag on", 20880}},
	{"com.alibaba:dubbo", rule{"Dubbo", "dubbo", "Dubbo passes the attachment dubbo.tag on", 20880}},
	{"io.opentelemetry", rule{"OpenTelemetry", "baggage", otelWhy, 0}},
	{"io.micrometer:micrometer-tracing-bridge-otel", rule{"Micrometer Tracing", "baggage", "OpenTelemetry passes baggage on", 0}},
	{"org.springframework.boot:", rule{"Spring Boot", "", "", 8080}},
}

func javaMatches(has func(coordinates string) (string, bool)) []match {
	var out []match
	for _, r := range javaRules {
		if c, ok := has(r.coordinates); ok {
			out = append(out, match{r.rule, c})
		}
	}
	return out
}

// pom is what of a pom.xml is looked at.
type pom struct {
	XMLName    xml.Name     `xml:"project"`
	ArtifactID string       `xml:"artifactId"`
	Parent     coordinate   `xml:"parent"`
	Deps       []coordinate `xml:"dependencies>dependency"`
	Managed    []coordinate `xml:"dependencyManagement>dependencies>dependency"`
}

type coordinate struct {
	Group    string `xml:"groupId"`
	Artifact string `xml:"artifactId"`
}

func (c coordinate) String() string {
	return strings.TrimSpace(c.Group) + ":" + strings.TrimSpace(c.Artifact)
}

func readMaven(r *reader) (fromFile, bool) {
	const name = "pom.xml"
	b, ok := r.file(name)
	if !ok {
		return fromFile{}, false
	}
	var p pom
	d := xml.NewDecoder(bytes.NewReader(b))
	d.CharsetReader = nil // a pom is UTF-8; another charset is an error, and noted
	if err := d.Decode(&p); err != nil {
		r.note(name, err.Error())
		return fromFile{}, false
	}
	out := fromFile{name: name}
	out.found.Service, out.found.ServiceFrom = strings.TrimSpace(p.ArtifactID), name
	// What is managed is a version, and no use of it.
	all := append([]coordinate{p.Parent}, p.Deps...)
	out.rules = javaMatches(func(prefix string) (string, bool) {
		for _, c := range all {
			if strings.HasPrefix(c.String(), prefix) {
				return c.String(), true
			}
		}
		return "", false
	})
	for _, c := range p.Deps {
		if strings.TrimSpace(c.Artifact) == "spring-boot-starter-actuator" {
			out.found.Health = actuator
		}
	}
	spring(r, &out)
	return out, true
}

const actuator = "/actuator/health"

// gradleDep finds coordinates in a build file, as 'group:artifact:version'.
var gradleDep = pattern(`["']([A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+)(?::[^"']*)?["']`)

// gradlePlugin finds id 'org.springframework.boot'.
var gradlePlugin = pattern(`\bid\s*\(?\s*["']([A-Za-z0-9_.-]+)["']`)

var rootProject = pattern(`(?m)^\s*rootProject\.name\s*=\s*["']([^"']+)["']`)

func readGradle(r *reader) (fromFile, bool) {
	for _, ext := range []string{"", ".kts"} {
		name := "build.gradle" + ext
		b, ok := r.file(name)
		if !ok {
			continue
		}
		text := withoutComments(string(b))
		out := fromFile{name: name}
		if s, ok := r.file("settings.gradle" + ext); ok {
			if m := rootProject().FindSubmatch(s); m != nil {
				out.found.Service, out.found.ServiceFrom = string(m[1]), "settings.gradle"+ext
			}
		}
		var all []string
		for _, m := range gradleDep().FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		for _, m := range gradlePlugin().FindAllStringSubmatch(text, -1) {
			all = append(all, m[1]+":")
		}
		out.rules = javaMatches(func(prefix string) (string, bool) {
			for _, c := range all {
				if strings.HasPrefix(c, prefix) {
					return strings.TrimSuffix(c, ":"), true
				}
			}
			return "", false
		})
		if strings.Contains(text, "spring-boot-starter-actuator") {
			out.found.Health = actuator
		}
		spring(r, &out)
		return out, true
	}
	return fromFile{}, false
}

var comments = pattern(`(?s)/\*.*?\*/|(?m)(?:^|\s)//[^\n]*`)

func withoutComments(s string) string { return comments().ReplaceAllString(s, "\n") }

// spring reads the application's own name and port, which are stronger than
// what the build file says.
func spring(r *reader, out *fromFile) {
	for _, base := range []string{"bootstrap", "application"} {
		for _, ext := range []string{".properties", ".yml", ".yaml"} {
			name := "src/main/resources/" + base + ext
			b, ok := r.file(name)
			if !ok {
				continue
			}
			values := properties(string(b))
			if ext != ".properties" {
				values = yamlPaths(string(b))
			}
			if v := plain(values["spring.application.name"]); v != "" {
				out.found.Service, out.found.ServiceFrom = v, name
			}
			if p, err := strconv.Atoi(plain(values["server.port"])); err == nil && p > 0 && p < 65536 {
				out.found.Ports = []int{p}
			}
		}
	}
}

// placeholder is ${NAME} or ${NAME:default}.
var placeholder = pattern(`^\$\{[^:}]*(?::([^}]*))?\}$`)

// plain is a value, or the default of a placeholder.
func plain(v string) string {
	v = strings.Trim(strings.TrimSpace(v), `"'`)
	if m := placeholder().FindStringSubmatch(v); m != nil {
		return m[1]
	}
	if strings.Contains(v, "${") || strings.Contains(v, "@") { // made at build time
		return ""
	}
	return v
}

func properties(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if i := strings.IndexAny(line, "=:"); i > 0 && line[0] != '#' && line[0] != '!' {
			out[strings.TrimSpace(line[:i])] = strings.TrimSpace(line[i+1:])
		}
	}
	return out
}

// yamlPaths reads the first document's plain "key: value" lines into dotted
// paths, by indentation: enough for two settings, and no reader of YAML.
func yamlPaths(text string) map[string]string {
	out := map[string]string{}
	type level struct {
		indent int
		path   string
	}
	var stack []level
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, " \r\n")
		trimmed := strings.TrimLeft(body, " ")
		if strings.HasPrefix(body, "---") && len(out) > 0 {
			break
		}
		if trimmed == "" || trimmed[0] == '#' || trimmed[0] == '-' {
			continue
		}
		key, value, ok := strings.Cut(trimmed, ":")
		if !ok || value != "" && value[0] != ' ' {
			continue
		}
		indent := len(body) - len(trimmed)
		for len(stack) > 0 && stack[len(stack)-1].indent >= indent {
			stack = stack[:len(stack)-1]
		}
		path := strings.Trim(key, `"'`)
		if len(stack) > 0 {
			path = stack[len(stack)-1].path + "." + path
		}
		value, _, _ = strings.Cut(value, " #")
		if value = strings.TrimSpace(value); value != "" {
			out[path] = value
		} else {
			stack = append(stack, level{indent, path})
		}
	}
	return out
}
