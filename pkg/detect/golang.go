package detect

import (
	"path"
	"strings"

	"golang.org/x/mod/modfile"
)

const otelWhy = "OpenTelemetry passes baggage on, where the propagator baggage is among those that are set (OTEL_PROPAGATORS)"

// goRules, the frameworks that pass a carrier on first.
var goRules = []struct {
	prefix string
	rule
}{
	{"github.com/go-kratos/kratos", rule{"kratos", "kratos", "its metadata middleware passes x-md-global-* headers on", 8000}},
	{"github.com/cloudwego/kitex", rule{"kitex", "cloudwego", "its metainfo passes rpc-persist-* headers on", 8888}},
	{"github.com/cloudwego/hertz", rule{"hertz", "cloudwego", "metainfo passes rpc-persist-* headers on", 8888}},
	{"dubbo.apache.org/dubbo-go", rule{"dubbo-go", "dubbo", "Dubbo passes the attachment dubbo.tag on", 20000}},
	{"github.com/apache/dubbo-go", rule{"dubbo-go", "dubbo", "Dubbo passes the attachment dubbo.tag on", 20000}},
	{"go.opentelemetry.io/otel", rule{"OpenTelemetry", "baggage", otelWhy, 0}},
	{"go.opentelemetry.io/contrib", rule{"OpenTelemetry", "baggage", otelWhy, 0}},
	{"github.com/gin-gonic/gin", rule{"gin", "", "", 8080}},
	{"github.com/labstack/echo", rule{"echo", "", "", 1323}},
	{"github.com/gofiber/fiber", rule{"fiber", "", "", 3000}},
	{"github.com/go-chi/chi", rule{"chi", "", "", 8080}},
}

// major is a version at the end of a module's path.
var major = pattern(`^v[0-9]+$`)

func readGo(r *reader) (fromFile, bool) {
	const name = "go.mod"
	b, ok := r.file(name)
	if !ok {
		return fromFile{}, false
	}
	f, err := modfile.ParseLax(name, b, nil)
	if err != nil {
		r.note(name, err.Error())
		return fromFile{}, false
	}
	out := fromFile{name: name}
	if f.Module != nil {
		base := path.Base(f.Module.Mod.Path)
		if major().MatchString(base) {
			base = path.Base(path.Dir(f.Module.Mod.Path))
		}
		out.found.Service, out.found.ServiceFrom = base, name
	}
	for _, rule := range goRules {
		for _, req := range f.Require {
			// What others require says nothing of this service.
			if !req.Indirect && underPath(req.Mod.Path, rule.prefix) {
				out.rules = append(out.rules, match{rule.rule, req.Mod.Path})
				break
			}
		}
	}
	return out, true
}

// underPath reports whether a module is the prefix or below it.
func underPath(module, prefix string) bool {
	return module == prefix || strings.HasPrefix(module, prefix+"/")
}
