package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/yamlline"

	"go.yaml.in/yaml/v3"
)

// document is the form of a gateway's file.
type document struct {
	Routes []routeDoc `yaml:"routes"`
}

type routeDoc struct {
	Host      string       `yaml:"host"`
	Prefix    string       `yaml:"prefix"`
	Service   string       `yaml:"service"`
	Strip     int          `yaml:"strip"`
	Upstreams *upstreamDoc `yaml:"upstreams"`
}

type upstreamDoc struct {
	Baseline string            `yaml:"baseline"`
	Lanes    map[string]string `yaml:"lanes"`
}

// ParseRoutes reads the routes of a gateway's file:
//
//	routes:
//	  - host: shop.test.example     # exact, *.domain, or none: any
//	    prefix: /api/orders         # whole segments
//	    service: order-service
//	    strip: 1                    # segments of the prefix to take off
//	  - prefix: /bff
//	    service: buyer-bff          # not in the registry
//	    upstreams:
//	      baseline: 10.0.0.7:8080
//	      lanes: { v2: "10.0.0.8:8080" }
//
// A key that it does not know is an error that names its line.
func ParseRoutes(b []byte) ([]proxy.Route, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	var d document
	if err := dec.Decode(&d); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty: it wants routes")
		}
		return nil, plainly(b, err)
	}
	if len(d.Routes) == 0 {
		return nil, errors.New("no routes: nothing would be led anywhere")
	}
	out := make([]proxy.Route, 0, len(d.Routes))
	for i, r := range d.Routes {
		one := proxy.Route{Host: r.Host, Prefix: r.Prefix, Service: r.Service, Strip: r.Strip}
		if r.Upstreams != nil {
			one.Upstreams = map[lane.Name]string{}
			if r.Upstreams.Baseline != "" {
				one.Upstreams[""] = r.Upstreams.Baseline
			}
			for name, addr := range r.Upstreams.Lanes {
				one.Upstreams[lane.Name(name)] = addr
			}
			if len(one.Upstreams) == 0 {
				return nil, fmt.Errorf("route %d: upstreams without an address", i+1)
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// mostServices bounds Services: each is watched over a connection of its own, and
// Consul allows an address 200.
const mostServices = 100

// Services are the services of the registry that routes lead to, each once, the first
// 100 of them: those to be watched for as long as the gateway runs.
func Services(routes []proxy.Route) []string {
	var out []string
	for i := range routes {
		if name := routes[i].Service; routes[i].Upstreams == nil && len(out) < mostServices && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

var unknownKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`field (\S+) not found in type \S+`) })

// plainly says what YAML's reader found wrong in words of the document.
func plainly(b []byte, err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		line, words := yamlline.Of(b, err)
		return fmt.Errorf("line %d: %s", line, words)
	}
	said := make([]string, len(wrong.Errors))
	for i, e := range wrong.Errors {
		said[i] = unknownKey().ReplaceAllString(e, "unknown key $1")
	}
	return errors.New(strings.Join(said, "; "))
}
