package dev_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestRecordedRegistration(t *testing.T) {
	record(t, "registration", []request{
		get("/v1/agent/services"),
		put("/v1/agent/service/register", `{"ID":"web-1","Name":"web","Port":8080,"Address":"10.0.0.1","Tags":["a","b"],"Meta":{"lane":"x"},"Check":{"TTL":"15s","DeregisterCriticalServiceAfter":"1s"}}`),
		get("/v1/agent/services"),
		get("/v1/agent/service/web-1"),
		get("/v1/agent/checks"),
		get("/v1/health/service/web"),
		get("/v1/catalog/service/web"),
		// No id, no address, no port: the name, and the node's address.
		put("/v1/agent/service/register", `{"Name":"bare"}`),
		get("/v1/health/service/bare"),
		get("/v1/catalog/service/bare"),
		// IPv6, host name, tagged addresses, weights, the second spelling.
		put("/v1/agent/service/register", `{"Name":"six","Address":"::1","Port":8081,"Weights":{"Passing":5,"Warning":0},"enable_tag_override":true}`),
		get("/v1/health/service/six"),
		put("/v1/agent/service/register", `{"Name":"named","Address":"a b","Port":-1,"tagged_addresses":{"lan":{"Address":"h","Port":1}}}`),
		get("/v1/health/service/named"),
		// Several checks; then fewer, without and with replacing.
		put("/v1/agent/service/register", `{"ID":"two","Name":"two","Checks":[{"TTL":"10s","Status":"passing","Notes":"n"},{"CheckID":"own","Name":"mine","TTL":"20s","Status":"warning"}]}`),
		get("/v1/health/checks/two"),
		get("/v1/agent/health/service/id/two"),
		get("/v1/agent/health/service/name/two"),
		get("/v1/agent/health/service/id/two?format=text"),
		put("/v1/agent/service/register", `{"ID":"two","Name":"two","Check":{"CheckID":"own","TTL":"20s","Status":"critical"}}`),
		get("/v1/health/checks/two"),
		put("/v1/agent/service/register?replace-existing-checks=true", `{"ID":"two","Name":"two","Check":{"CheckID":"own","TTL":"20s"}}`),
		get("/v1/health/checks/two"),
		// The id moves to another name.
		put("/v1/agent/service/register", `{"ID":"two","Name":"three"}`),
		get("/v1/health/service/two"),
		get("/v1/catalog/services"),
		put("/v1/agent/service/deregister/web-1", ""),
		put("/v1/agent/service/deregister/web-1", ""),
		get("/v1/health/service/web"),
		get("/v1/agent/service/web-1"),
	})
}

func TestRecordedRefusals(t *testing.T) {
	register := func(body string) request { return put("/v1/agent/service/register", body) }
	meta := map[string]string{}
	for i := range 65 {
		meta[fmt.Sprintf("k%d", i)] = "v"
	}
	many := strings.ReplaceAll(fmt.Sprintf("%q", meta), "map[", "{")
	many = strings.ReplaceAll(strings.ReplaceAll(many, "]", "}"), `" "`, `","`)
	record(t, "refusals", []request{
		register(`{"Name":""}`),
		register(`{}`),
		register(`{`),
		register(``),
		register(`{"Name":"x","Bogus":1}`),
		register(`{"Name":"x","Namespace":"n"}`),
		register(`{"Name":"x","Address":"0.0.0.0"}`),
		register(`{"Name":"x","Address":"::"}`),
		register(`{"Name":"x","Check":{"Name":"only"}}`),
		register(`{"Name":"x","Check":{"HTTP":"http://h"}}`),
		register(`{"Name":"x","Check":{"TTL":"5s","Interval":"5s"}}`),
		register(`{"Name":"x","Check":{"TTL":"15s","Status":"bad"}}`),
		register(`{"Name":"x","Check":{"TTL":"zz"}}`),
		register(`{"Name":"x","Check":{"TTL":"5s","FailuresBeforeWarning":2}}`),
		register(`{"Name":"x","Weights":{"Passing":0,"Warning":0}}`),
		register(`{"Name":"x","Weights":{"Passing":1,"Warning":-1}}`),
		register(`{"Name":"x","Weights":{"Passing":65536,"Warning":0}}`),
		register(`{"Name":"x","Meta":{"a.b":"c"}}`),
		register(`{"Name":"x","Meta":{"a/b":"c"}}`),
		register(`{"Name":"x","Meta":{"":"c"}}`),
		register(`{"Name":"x","Meta":{"consul-b":"c"}}`),
		register(`{"Name":"x","Meta":{"` + strings.Repeat("k", 129) + `":"c"}}`),
		register(`{"Name":"x","Meta":{"k":"` + strings.Repeat("v", 513) + `"}}`),
		register(`{"Name":"x","Meta":` + many + `}`),
		register(`{"Name":"x","TaggedAddresses":{"lan_ipv4":{"Address":"::1"}}}`),
		get("/v1/agent/services"),
		put("/v1/agent/service/deregister/none", ""),
		put("/v1/agent/service/maintenance/none?enable=true", ""),
		put("/v1/agent/service/maintenance/none", ""),
		put("/v1/agent/service/maintenance/none?enable=perhaps", ""),
		put("/v1/agent/service/maintenance/?enable=true", ""),
		put("/v1/agent/check/register", `{"TTL":"10s"}`),
		put("/v1/agent/check/register", `{"Name":"c"}`),
		put("/v1/agent/check/register", `{"Name":"c","TTL":"10s","Status":"bad"}`),
		put("/v1/agent/check/register", `{"Name":"c","TTL":"10s","ServiceID":"none"}`),
		put("/v1/agent/check/register", `{"Name":"c","TTL":"10s","CheckID":"none"}`),
		put("/v1/agent/check/deregister/none", ""),
		put("/v1/agent/check/pass/none", ""),
		put("/v1/agent/check/update/none", `{"Status":"passing"}`),
		put("/v1/agent/check/update/none", `{"Status":"pass"}`),
		put("/v1/agent/check/update/none", `{`),
		get("/v1/agent/service/none"),
		get("/v1/agent/health/service/id/none"),
		get("/v1/agent/health/service/id/none?format=text"),
		get("/v1/agent/health/service/name/none"),
		get("/v1/agent/health/service/name/none").with("Accept", "text/plain"),
	})
}

func TestRecordedWire(t *testing.T) {
	record(t, "wire", []request{
		get("/v1/acl/token/self"),
		get("/v1/catalog/datacenters"),
		get("/v1/nope"),
		get("/nope"),
		put("/v1/health/service/web", ""),
		{method: http.MethodOptions, path: "/v1/health/service/web"},
		{method: http.MethodOptions, path: "/v1/kv/a"},
		{method: http.MethodPost, path: "/v1/kv/a"},
		{method: http.MethodPost, path: "/v1/agent/service/register", body: "{}"},
		get("/v1/health/service/web?wait=abc"),
		get("/v1/health/service/web?index=abc"),
		get("/v1/health/service/web?index=-1"),
		get("/v1/health/service/web?stale&consistent"),
		get("/v1/health/service/web?cached&consistent"),
		get("/v1/health/service/web?max_stale=x"),
		get("/v1/health/service/web?passing=maybe"),
		get("/v1/health/service/web?dc=elsewhere"),
		get("/v1/catalog/services?dc=elsewhere"),
		get("/v1/kv/a?dc=elsewhere"),
		get("/v1/health/service/web?dc=dc1"),
		get("/v1/health/service/"),
		get("/v1/health/state/"),
		get("/v1/health/node/"),
		get("/v1/health/checks/"),
		get("/v1/catalog/service/"),
		get("/v1/catalog/node/"),
		get("/v1/session/info/"),
		get("/v1/session/node/"),
		get("/v1/health/service/web?ns=team"),
		get("/v1/catalog/service/web?ns=team"),
		get("/v1/catalog/services?ns=team"),
		get("/v1/agent/services?ns=team"),
		get("/v1/session/list?ns=team"),
		get("/v1/kv/a?partition=p"),
		get("/v1/kv/a").with("X-Consul-Namespace", "team"),
		put("/v1/agent/service/register?ns=team", `{"Name":"x"}`),
		put("/v1/session/create?ns=team", ``),
		get("/v1/health/service/web"),
		get("/v1/health/service/web?stale"),
		get("/v1/health/service/web?consistent"),
		get("/v1/health/service/web?cached"),
		get("/v1/health/service/web?cached"),
		get("/v1/health/service/web?cached&passing"),
		get("/v1/catalog/service/web?cached"),
		get("/v1/catalog/service/web?cached"),
		get("/v1/catalog/services?cached"),
		get("/v1/health/service/web?index=1&wait=1s"),
		get("/v1/health/service/web?near=_agent"),
		get("/v1/health/service/web?near=dev&index=1&wait=1s"),
		get("/v1/health/service/web").with("X-Consul-Token", "any"),
		get("/v1/health/service/web").with("Authorization", "Bearer any"),
		get("/v1/health/service/a%2Fb"),
		get("/v1/catalog/nodes?pretty"),
	})
}

func TestRecordedChecks(t *testing.T) {
	record(t, "checks", []request{
		put("/v1/agent/service/register", `{"ID":"w1","Name":"w","Check":{"TTL":"30s"}}`),
		put("/v1/agent/check/pass/service:w1?note=fine", ""),
		get("/v1/health/service/w?passing"),
		put("/v1/agent/check/warn/service:w1?note=slow", ""),
		get("/v1/health/service/w?passing"),
		get("/v1/agent/health/service/id/w1?format=text"),
		put("/v1/agent/check/update/service:w1", `{"Status":"critical","Output":"down"}`),
		get("/v1/health/checks/w"),
		// The same status with other words: the agent knows, the catalog later.
		put("/v1/agent/check/fail/service:w1?note=still+down", ""),
		get("/v1/agent/checks"),
		get("/v1/health/checks/w"),
		put("/v1/agent/check/update/service:w1", `{"Status":"passing","Output":"`+strings.Repeat("o", 5000)+`"}`),
		get("/v1/health/checks/w"),
		// More checks: of the service, of the node.
		put("/v1/agent/check/register", `{"ID":"extra","Name":"Extra","TTL":"30s","ServiceID":"w1","Status":"passing","Notes":"n"}`),
		put("/v1/agent/check/register", `{"Name":"disk","TTL":"30s"}`),
		get("/v1/agent/checks"),
		get("/v1/health/service/w"),
		get("/v1/health/node/dev"),
		get("/v1/health/state/critical"),
		get("/v1/health/state/passing"),
		get("/v1/health/state/any"),
		get("/v1/health/state/Critical"),
		get("/v1/health/state/bogus"),
		get("/v1/agent/health/service/id/w1"),
		get("/v1/agent/checks?filter=" + escape(`CheckID == "disk"`)),
		get("/v1/health/state/any?filter=" + escape(`ServiceName == "w"`)),
		put("/v1/agent/check/deregister/disk", ""),
		put("/v1/agent/check/deregister/extra", ""),
		// Maintenance.
		put("/v1/agent/service/maintenance/w1?enable=true&reason=busy", ""),
		put("/v1/agent/service/maintenance/w1?enable=true&reason=other", ""),
		get("/v1/health/checks/w"),
		get("/v1/agent/health/service/id/w1?format=text"),
		put("/v1/agent/check/pass/_service_maintenance:w1", ""),
		put("/v1/agent/service/maintenance/w1?enable=false", ""),
		put("/v1/agent/service/maintenance/w1?enable=false", ""),
		put("/v1/agent/service/maintenance/w1?enable=true", ""),
		get("/v1/health/checks/w"),
		put("/v1/agent/maintenance?enable=true", ""),
		get("/v1/health/node/dev"),
		put("/v1/agent/maintenance?enable=false", ""),
		put("/v1/agent/maintenance", ""),
		get("/v1/health/service/w?passing=false"),
		// A TTL beat on a check that is none.
		put("/v1/agent/service/register", `{"ID":"h1","Name":"h","Check":{"TCP":"127.0.0.1:1","Interval":"1h","Timeout":"2s","Status":"passing"}}`),
		put("/v1/agent/check/pass/service:h1", ""),
		get("/v1/agent/checks?filter=" + escape(`CheckID == "service:h1" and Status == "nothing"`)),
	})
}
