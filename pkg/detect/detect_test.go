package detect

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func source(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

const pomHead = `<?xml version="1.0" encoding="UTF-8"?><project xmlns="http://maven.apache.org/POM/4.0.0">`

func TestLook(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Found // Why is compared as a part
		port  int
	}{
		{"nothing", nil,
			Found{Service: "my-dir", ServiceFrom: "the directory's name", Preset: "lane", Why: "nothing here is known"}, 8080},
		{"kratos", map[string]string{"go.mod": "module example.com/Team/Order_Service/v2\n\nrequire (\n\tgithub.com/gin-gonic/gin v1.9.0\n\tgithub.com/go-kratos/kratos/v2 v2.7.0\n)\n"},
			Found{Service: "order-service", ServiceFrom: "go.mod", Frameworks: []string{"kratos", "gin"}, Preset: "kratos", Why: "go.mod requires github.com/go-kratos/kratos/v2: its metadata middleware"}, 8000},
		{"hertz", map[string]string{"go.mod": "module a/b\nrequire github.com/cloudwego/hertz v0.9.0\n"},
			Found{Service: "b", ServiceFrom: "go.mod", Frameworks: []string{"hertz"}, Preset: "cloudwego", Why: "rpc-persist-*"}, 8888},
		{"dubbo-go", map[string]string{"go.mod": "module b\nrequire dubbo.apache.org/dubbo-go/v3 v3.1.0\n"},
			Found{Service: "b", ServiceFrom: "go.mod", Frameworks: []string{"dubbo-go"}, Preset: "dubbo", Why: "dubbo.tag"}, 20000},
		{"gin with OpenTelemetry", map[string]string{"go.mod": "module b\nrequire (\n\tgithub.com/gin-gonic/gin v1.9.0\n\tgo.opentelemetry.io/otel/sdk v1.2.0\n)\n"},
			Found{Service: "b", ServiceFrom: "go.mod", Frameworks: []string{"OpenTelemetry", "gin"}, Preset: "baggage", Why: "go.opentelemetry.io/otel/sdk: OpenTelemetry passes baggage on"}, 8080},
		{"OpenTelemetry of others", map[string]string{"go.mod": "module b\nrequire (\n\tgithub.com/gin-gonic/gin v1.9.0\n\tgo.opentelemetry.io/otel v1.2.0 // indirect\n)\n"},
			Found{Service: "b", ServiceFrom: "go.mod", Frameworks: []string{"gin"}, Preset: "lane", Why: "go.mod requires github.com/gin-gonic/gin, which passes no header on"}, 8080},
		{"names that only begin alike", map[string]string{"go.mod": "module b\nrequire github.com/gin-gonic/gin-extras v1.9.0\n"},
			Found{Service: "b", ServiceFrom: "go.mod", Preset: "lane", Why: "nothing here is known"}, 8080},
		{"broken go.mod", map[string]string{"go.mod": "module \"\n", "package.json": `{"name":"x"}`},
			Found{Service: "x", ServiceFrom: "package.json", Preset: "lane", Why: "nothing here is known", Notes: []string{"go.mod: "}}, 8080},

		{"spring cloud tencent", map[string]string{"pom.xml": pomHead + `<parent><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId></parent>
			<artifactId>orders</artifactId><dependencies><dependency><groupId>com.tencent.cloud</groupId><artifactId>spring-cloud-starter-tencent-metadata-transfer</artifactId></dependency>
			<dependency><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-actuator</artifactId></dependency></dependencies></project>`,
			"src/main/resources/application.yml": "# comment\nserver:\n  port: ${PORT:8081}\nspring:\n  application:\n    name: order-service # the name\n---\nspring:\n  application:\n    name: other\n"},
			Found{Service: "order-service", ServiceFrom: "src/main/resources/application.yml", Frameworks: []string{"Spring Cloud Tencent", "Spring Boot"}, Preset: "polaris-transitive",
				Why: "pom.xml requires com.tencent.cloud:spring-cloud-starter-tencent-metadata-transfer: ", Health: "/actuator/health"}, 8081},
		{"managed is not used", map[string]string{"pom.xml": pomHead + `<artifactId>orders</artifactId><dependencyManagement><dependencies><dependency><groupId>com.tencent.cloud</groupId><artifactId>x</artifactId></dependency></dependencies></dependencyManagement></project>`},
			Found{Service: "orders", ServiceFrom: "pom.xml", Preset: "lane", Why: "nothing here is known"}, 8080},
		{"spring boot with micrometer", map[string]string{"pom.xml": pomHead + `<artifactId>orders</artifactId><dependencies><dependency><groupId>io.micrometer</groupId><artifactId>micrometer-tracing-bridge-otel</artifactId></dependency></dependencies></project>`},
			Found{Service: "orders", ServiceFrom: "pom.xml", Frameworks: []string{"Micrometer Tracing"}, Preset: "baggage", Why: "passes baggage on"}, 8080},
		{"gradle", map[string]string{"build.gradle.kts": "plugins { id(\"org.springframework.boot\") version \"3.2.0\" }\ndependencies {\n  implementation(\"org.apache.dubbo:dubbo-spring-boot-starter:3.2.0\")\n  // implementation(\"com.nepxion:discovery:1\")\n}\n",
			"settings.gradle.kts": "rootProject.name = \"Orders\"\n", "src/main/resources/application.properties": "server.port=9001\nspring.application.name=${name}\n"},
			Found{Service: "orders", ServiceFrom: "settings.gradle.kts", Frameworks: []string{"Dubbo", "Spring Boot"}, Preset: "dubbo", Why: "build.gradle.kts requires org.apache.dubbo:dubbo-spring-boot-starter: "}, 9001},
		{"broken pom", map[string]string{"pom.xml": "<project><artifactId>"},
			Found{Service: "my-dir", ServiceFrom: "the directory's name", Preset: "lane", Why: "nothing here is known", Notes: []string{"pom.xml: "}}, 8080},

		{"express", map[string]string{"package.json": `{"name":"@shop/cart","dependencies":{"express":"4"},"devDependencies":{"@opentelemetry/sdk-node":"1"}}`},
			Found{Service: "cart", ServiceFrom: "package.json", Frameworks: []string{"Express"}, Preset: "lane", Why: "package.json requires express, which"}, 3000},
		{"nest with OpenTelemetry", map[string]string{"package.json": `{"name":"cart","dependencies":{"@nestjs/core":"10","@opentelemetry/sdk-node":"1","@opentelemetry/api":"1"}}`, "Dockerfile": "FROM node\nexpose 4000/tcp\nEXPOSE 53/udp\n"},
			Found{Service: "cart", ServiceFrom: "package.json", Frameworks: []string{"OpenTelemetry", "Nest"}, Preset: "baggage", Why: "package.json requires @opentelemetry/api: "}, 4000},
		{"no name", map[string]string{"package.json": `{}`},
			Found{Service: "my-dir", ServiceFrom: "the directory's name", Preset: "lane", Why: "nothing here is known"}, 8080},
		{"the first build file speaks", map[string]string{"go.mod": "module api\n", "package.json": `{"name":"web","dependencies":{"express":"4"}}`},
			Found{Service: "api", ServiceFrom: "go.mod", Preset: "lane", Why: "nothing here is known"}, 8080},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Look(source(c.files), "My Dir")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Why, c.want.Why) {
				t.Errorf("why: %q, want %q in it", got.Why, c.want.Why)
			}
			if (got.Todo == "") != (c.want.Preset != "lane") {
				t.Errorf("preset %s, and to do: %q", got.Preset, got.Todo)
			}
			if len(got.Notes) != len(c.want.Notes) || len(got.Notes) > 0 && !strings.HasPrefix(got.Notes[0], c.want.Notes[0]) {
				t.Errorf("notes %q, want %q", got.Notes, c.want.Notes)
			}
			if got.Ports[0] != c.port || len(slices.Compact(slices.Sorted(slices.Values(got.Ports)))) != len(got.Ports) {
				t.Errorf("ports %v, want %d first and each once", got.Ports, c.port)
			}
			got.Why, got.Todo, got.Notes, got.Ports = "", "", nil, nil
			c.want.Why, c.want.Notes = "", nil
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// deaf is a file system that cannot be read.
type deaf struct{}

var errDeaf = errors.New("deaf")

func (deaf) Open(string) (fs.File, error) { return nil, errDeaf }

func TestLookTellsAFailureToRead(t *testing.T) {
	if _, err := Look(deaf{}, "x"); !errors.Is(err, errDeaf) {
		t.Errorf("%v", err)
	}
	big := source(map[string]string{"package.json": strings.Repeat(" ", maxFile+1)})
	if f, err := Look(big, "x"); err != nil || len(f.Notes) != 1 || f.Service != "x" {
		t.Errorf("%+v, %v", f, err)
	}
	dir := fstest.MapFS{"go.mod/x": &fstest.MapFile{}}
	if f, err := Look(dir, "x"); err != nil || f.ServiceFrom != "the directory's name" {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestServiceName(t *testing.T) {
	for in, want := range map[string]string{
		"Order Service": "order-service", "a.b_c-d": "a-b-c-d", "--x--": "x", "愛": "", "": "", "/": "", ".": "",
		strings.Repeat("a", 62) + "-b": strings.Repeat("a", 62),
	} {
		if got := ServiceName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzLook(f *testing.F) {
	f.Add("go.mod", "module a\nrequire b v1\n")
	f.Add("pom.xml", pomHead+"</project>")
	f.Add("package.json", `{"name":"x"}`)
	f.Add("build.gradle", "id 'x'")
	f.Add("Dockerfile", "EXPOSE 80")
	f.Add("src/main/resources/application.yml", "a:\n b: c")
	f.Fuzz(func(t *testing.T, name, text string) {
		if !fs.ValidPath(name) || name == "." {
			return
		}
		files := source(map[string]string{name: text})
		if strings.HasPrefix(name, "src/") {
			files["build.gradle"] = &fstest.MapFile{}
		}
		got, err := Look(files, "dir")
		if err != nil {
			return
		}
		if got.Service != ServiceName(got.Service) || got.Service == "" || got.Preset == "" || len(got.Ports) == 0 {
			t.Fatalf("%+v", got)
		}
		Render(First{Service: got.Service, Port: got.Ports[0], Health: got.Health, Preset: got.Preset})
	})
}
