package childenv

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var session = Session{Proxy: "http://127.0.0.1:7474", Lane: "dev-alice", Direct: []string{"consul.test:8500"}}

const java = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=7474 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=7474 -Dhttp.nonProxyHosts="

func TestVarsOfAnEmptyEnvironment(t *testing.T) {
	const direct = "localhost,127.0.0.1,::1,consul.test"
	want := []Var{
		{"HTTP_PROXY", "http://127.0.0.1:7474"}, {"HTTPS_PROXY", "http://127.0.0.1:7474"}, {"NO_PROXY", direct},
		{"http_proxy", "http://127.0.0.1:7474"}, {"https_proxy", "http://127.0.0.1:7474"}, {"no_proxy", direct},
		{"grpc_proxy", "http://127.0.0.1:7474"}, {"NODE_USE_ENV_PROXY", "1"},
		{"JAVA_TOOL_OPTIONS", java + "localhost|127.0.0.1|[::1]|consul.test|*.consul.test"},
		{"LANE_TAG", "dev-alice"}, {"LANE_PROXY", "http://127.0.0.1:7474"},
	}
	if d := cmp.Diff(want, Vars(nil, session)); d != "" {
		t.Error(d)
	}
	for _, v := range Vars(nil, session) {
		if strings.HasSuffix(strings.ToLower(v.Name), "_proxy") && v.Name != "NODE_USE_ENV_PROXY" && strings.ToLower(v.Name) != "no_proxy" && !strings.HasPrefix(v.Value, "http://") {
			t.Errorf("%s has no scheme: %s", v.Name, v.Value)
		}
	}
}

func TestVarsOnWindowsHaveNoTwins(t *testing.T) {
	s := session
	s.Windows = true
	seen := map[string]bool{}
	for _, v := range Vars([]string{"no_proxy=corp.example"}, s) {
		if seen[strings.ToUpper(v.Name)] {
			t.Errorf("%s is there twice", v.Name)
		}
		seen[strings.ToUpper(v.Name)] = true
		if v.Name == "NO_PROXY" && !strings.HasPrefix(v.Value, "corp.example,") {
			t.Errorf("NO_PROXY=%s", v.Value)
		}
	}
}

func TestBuild(t *testing.T) {
	base := []string{
		"PATH=/bin", "HTTP_PROXY=http://corp:3128", "https_proxy=corp:3128", "ALL_PROXY=socks5://corp:1080", "all_proxy=x",
		"NO_PROXY=.corp.example, 10.0.0.0/8", "no_proxy=LOCALHOST,other.example,*", "LANE_TAG=dev-bob", "EMPTY=", "ODD", "http_proxy=old", "http_proxy=older",
		`JAVA_TOOL_OPTIONS=-Xmx1g  "-Dname=a b" -javaagent:/otel.jar`,
	}
	got := Build(base, session)
	want := []string{
		"PATH=/bin", "EMPTY=", "ODD",
		"HTTP_PROXY=http://127.0.0.1:7474", "HTTPS_PROXY=http://127.0.0.1:7474",
		"NO_PROXY=.corp.example,10.0.0.0/8,LOCALHOST,other.example,127.0.0.1,::1,consul.test",
		"http_proxy=http://127.0.0.1:7474", "https_proxy=http://127.0.0.1:7474",
		"no_proxy=.corp.example,10.0.0.0/8,LOCALHOST,other.example,127.0.0.1,::1,consul.test",
		"grpc_proxy=http://127.0.0.1:7474", "NODE_USE_ENV_PROXY=1",
		`JAVA_TOOL_OPTIONS=-Xmx1g  "-Dname=a b" -javaagent:/otel.jar ` + java +
			"*.corp.example|LOCALHOST|other.example|*.other.example|127.0.0.1|[::1]|consul.test|*.consul.test",
		"LANE_TAG=dev-alice", "LANE_PROXY=http://127.0.0.1:7474",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if again := Build(got, session); !slices.Equal(again, got) {
		t.Errorf("a second time: %s", cmp.Diff(got, again))
	}
	// Another session's properties replace those of the first, and no more.
	other := Session{Proxy: "http://127.0.0.1:7475", Lane: "dev-bob"}
	for _, kv := range Build(got, other) {
		if name, v, _ := cutVar(kv); name == javaVar && (strings.Contains(v, "7474") || strings.Count(v, "proxyPort") != 2 || !strings.HasPrefix(v, `-Xmx1g  "-Dname=a b" -javaagent:/otel.jar -Dhttp.proxyHost`)) {
			t.Error(v)
		}
	}
}

func TestJavaOptions(t *testing.T) {
	for _, c := range []struct {
		name, given, rest, hosts string
		ok                       bool
	}{
		{"nothing", "", "", "", true},
		{"untouched to the byte", "  -Xmx1g   -Da=b ", "  -Xmx1g   -Da=b ", "", true},
		{"ours go", "-Da=b -Dhttp.proxyHost=x -Dhttps.proxyPort=1 -Dc=d", "-Da=b -Dc=d", "", true},
		{"ours alone", "-Dhttp.proxyHost=x -Dhttps.proxyPort=1", "", "", true},
		{"quoted ones too", `"-Dhttp.proxyHost=x" -D"http.proxyPort=3" -Da='b c'`, ` -Da='b c'`, "", true},
		{"excluded hosts are kept", "-Dhttp.nonProxyHosts=*.corp|db|*", "", "*.corp db", true},
		{"names that only begin alike stay", "-Dhttp.proxyHostname=x -Dhttp.proxyHost.x=1 Dhttp.proxyHost=1", "-Dhttp.proxyHostname=x -Dhttp.proxyHost.x=1 Dhttp.proxyHost=1", "", true},
		{"inside of quotes is no option", `-Da="x -Dhttp.proxyHost=y"`, `-Da="x -Dhttp.proxyHost=y"`, "", true},
		{"a quote that never ends", `-Dhttp.proxyHost=a -Da="x -Db=c`, `-Dhttp.proxyHost=a -Da="x -Db=c`, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rest, hosts, ok := javaWithout(c.given, func(name string) bool { return slices.Contains(javaKeys, name) })
			if rest != c.rest || strings.Join(hosts, " ") != c.hosts || ok != c.ok {
				t.Errorf("%q, %q, %v, want %q, %q, %v", rest, hosts, ok, c.rest, c.hosts, c.ok)
			}
		})
	}
	if got := mergeJava("-Xmx1g", Session{Proxy: "%"}, ""); got != "-Xmx1g" {
		t.Errorf("a proxy that is no URL: %q", got)
	}
}

func TestHostOf(t *testing.T) {
	for in, want := range map[string]string{
		"consul:8500": "consul", "consul": "consul", "https://consul:8501/x": "consul", "[::1]:8500": "::1", "::1": "::1",
		"http://[::1]:1": "::1", "unix:///run/c.sock": "", "[::1]": "::1",
	} {
		if got := hostOf(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestInherited(t *testing.T) {
	for _, c := range []struct {
		name string
		base []string
		own  []string
		want [3]string
	}{
		{"none", nil, nil, [3]string{}},
		{"a company's", []string{"HTTP_PROXY=http://corp:3128", "https_proxy=http://corp:3129", "no_proxy=x"}, nil, [3]string{"http://corp:3128", "http://corp:3129", "x"}},
		{"our own, evaluated", Build(nil, session), nil, [3]string{"", "", "localhost,127.0.0.1,::1,consul.test"}},
		{"our own in another spelling", []string{"HTTP_PROXY=LOCALHOST:7474", "HTTPS_PROXY=http://u:p@127.0.0.1:7474/", "LANE_PROXY=http://127.0.0.1:7474"}, nil, [3]string{}},
		{"our own by address", []string{"HTTP_PROXY=http://[::1]:7475"}, []string{"127.0.0.1:7475"}, [3]string{}},
		{"another port is another proxy", []string{"HTTP_PROXY=http://127.0.0.1:3128", "LANE_PROXY=http://127.0.0.1:7474"}, []string{"127.0.0.1:7475"}, [3]string{"http://127.0.0.1:3128"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got [3]string
			got[0], got[1], got[2] = Inherited(c.base, false, c.own...)
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
