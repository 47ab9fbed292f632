//go:build unix

package cmd

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// client is one that developers have: a program, or a library with a program
// around it, that knows nothing of lane.
type client struct {
	name    string
	lib     string                                   // what the page calls it
	version func(t *testing.T) string                // what it says of its version
	argv    func(tls bool, to, file string) []string // file is "" for a call without a body
	grpc    bool
	needs   string // what a developer has to know, on the page
}

// call is one call of a client.
type call struct {
	host string // with a port or without
	tls  bool
	file string // the body; empty for none
}

// command is the client's command line for a call.
func (c *client) command(k call) []string {
	host := k.host
	if c.grpc {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host += ":50051" // the service's name is what counts
		}
		return c.argv(k.tls, host, k.file)
	}
	scheme := "http://"
	if k.tls {
		scheme = "https://"
	}
	return c.argv(k.tls, scheme+host+"/"+c.name, k.file)
}

// clients are those of the table in docs/clients.md, in its order.
func clients(t *testing.T, dir, cert string) []*client {
	node := filepath.Join(nodeModules(t), "node", "bin", "node")
	if _, err := os.Stat(node); err != nil {
		t.Fatalf("this test needs a Node of its own, which scripts/tools installs: %v", err)
	}
	script := func(name string) string {
		path, err := filepath.Abs("../testdata/clients/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	classes := filepath.Join(dir, "java")
	output(t, "javac", "-d", classes, script("Client.java"))
	java := func(kind string) func(bool, string, string) []string {
		// Quick to start, as it runs for one call only.
		return with("java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", classes, "Client", kind)
	}
	says := func(argv ...string) func(*testing.T) string {
		return func(t *testing.T) string { return output(t, argv...) }
	}
	// The interpreter itself: a version manager's shim takes longer than the call.
	python := strings.TrimSpace(output(t, "python3", "-c", "import sys; print(sys.executable)"))
	golang := func(*testing.T) string { return runtime.Version() }
	return []*client{
		{name: "curl", lib: "curl", version: says("curl", "--version"),
			argv: func(_ bool, to, file string) []string {
				if file == "" {
					return []string{"curl", "-sSf", "--cacert", cert, to}
				}
				return []string{"curl", "-sSf", "--cacert", cert, "--data-binary", "@" + file, to}
			},
			needs: "Nothing. `HTTP_PROXY` in upper case it does not read; `--noproxy`, `-x` and `~/.curlrc` come before the environment."},
		{name: "wget", lib: "GNU Wget", version: says("wget", "--version"),
			argv: func(_ bool, to, file string) []string {
				argv := []string{"wget", "-q", "-t", "1", "-O", "-", "--ca-certificate", cert}
				if file != "" {
					argv = append(argv, "--post-file", file)
				}
				return append(argv, to)
			},
			needs: "Nothing. It reads the variables in lower case only; `~/.wgetrc` comes before them."},
		{name: "go", lib: "Go, `net/http`", version: golang, argv: with("goclient", "http"),
			needs: "Nothing, if the transport is `http.DefaultTransport` or has `Proxy: http.ProxyFromEnvironment`. A `http.Transport` without it calls directly. The environment is read once, at the first call."},
		{name: "grpc-go", lib: "Go, `grpc-go`", version: golang, grpc: true,
			argv: func(tls bool, to, file string) []string {
				return with("goclient", map[bool]string{false: "grpc", true: "grpcs"}[tls])(tls, to, file)
			},
			needs: "Nothing, unless the client dials itself (`grpc.WithContextDialer`) or has `grpc.WithNoProxy`. It opens a tunnel by `HTTPS_PROXY`, without TLS too, and hands the service's name to the proxy."},
		{name: "urllib", lib: "Python, `urllib`", version: says(python, "--version"), argv: with(python, script("urllib.py")),
			needs: "Nothing, unless the program builds an opener with a `ProxyHandler` of its own."},
		{name: "fetch", lib: "Node, `fetch`", version: says(node, "--version"), argv: with(node, script("fetch.mjs")),
			needs: "Node 22.21+ or 24.0+: see [Node](#node)."},
		{name: "request", lib: "Node, `http.request`", version: says(node, "--version"), argv: with(node, script("request.mjs")),
			needs: "Node 22.21+ or 24.5+, and the global agent or one with `proxyEnv: process.env`: see [Node](#node)."},
		{name: "grpc-js", lib: "Node, `@grpc/grpc-js`", version: says(node, "--version"), grpc: true,
			argv: func(tls bool, to, file string) []string {
				return with(node, script("grpc.cjs"), map[bool]string{false: "plain", true: "tls"}[tls])(tls, to, file)
			},
			needs: "Nothing; it does not ask for `NODE_USE_ENV_PROXY`. `grpc_proxy` comes before the others."},
		{name: "urlconnection", lib: "Java, `HttpURLConnection`", version: says("java", "--version"), argv: java("URLConnection"),
			needs: "Nothing. Each JVM prints a line that it picked `JAVA_TOOL_OPTIONS` up."},
		{name: "httpclient", lib: "Java, `java.net.http`", version: says("java", "--version"), argv: java("HttpClient"),
			needs: "Nothing, unless the program sets a `proxy` of its own."},
	}
}

// nodeModules is where scripts/tools puts what comes from npm.
func nodeModules(t *testing.T) string {
	dir, err := filepath.Abs("../.cache/node/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// with makes the command line of a program that takes a target and a file.
func with(argv ...string) func(bool, string, string) []string {
	return func(_ bool, to, file string) []string {
		out := append(argv[:len(argv):len(argv)], to)
		if file != "" {
			out = append(out, file)
		}
		return out
	}
}

// output runs a program that has to succeed.
func output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v (scripts/tools installs what the tests need)\n%s", argv, err, out)
	}
	return string(out)
}
