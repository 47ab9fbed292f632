package dev_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestRecordedSessions(t *testing.T) {
	create := func(body string) request { return put("/v1/session/create", body) }
	named := func(name, body string) request { return put("{"+name+"}=/v1/session/create", body) }
	record(t, "sessions", []request{
		get("/v1/session/list"),
		get("/v1/session/info/none"),
		put("/v1/session/renew/none", ""),
		put("/v1/session/renew/", ""),
		put("/v1/session/destroy/none", ""),
		put("/v1/session/destroy/", ""),
		get("/v1/session/node/none"),
		create(`{"TTL":"9s"}`),
		create(`{"TTL":"zz"}`),
		create(`{"TTL":"24h1s"}`),
		create(`{"Behavior":"zz"}`),
		create(`{"LockDelay":"zz"}`),
		create(`{`),
		create(`{"Node":"none"}`),
		create(`{"NodeChecks":["none"]}`),
		create(`{"Checks":["none"]}`),
		create(`{"ServiceChecks":[{"ID":"none"}]}`),
		put("/v1/agent/service/register", `{"ID":"s","Name":"s","Check":{"TTL":"30s"}}`),
		create(`{"NodeChecks":["service:s"]}`),
		named("plain", ``),
		get("/v1/session/info/{plain}"),
		put("/v1/session/renew/{plain}", ""),
		named("full", `{"Name":"n","TTL":"10s","LockDelay":"1ms","NodeChecks":[],"Behavior":"delete","Bogus":1}`),
		get("/v1/session/info/{full}"),
		put("/v1/session/renew/{full}", ""),
		named("old", `{"Checks":[]}`),
		get("/v1/session/info/{old}"),
		named("seconds", `{"LockDelay":20,"TTL":"0s"}`),
		get("/v1/session/info/{seconds}"),
		named("nanos", `{"LockDelay":5000000000,"Checks":["serfHealth"],"NodeChecks":["serfHealth"]}`),
		get("/v1/session/info/{nanos}"),
		// Locks.
		put("/v1/kv/l?acquire={full}&flags=3", "mine"),
		get("/v1/kv/l"),
		put("/v1/kv/l?acquire={full}", "again"),
		get("/v1/kv/l"),
		put("/v1/kv/l?acquire={plain}", "other"),
		put("/v1/kv/l?acquire=none", "x"),
		put("/v1/kv/l?acquire=", "x"),
		put("/v1/kv/l?release=", "x"),
		put("/v1/kv/l?release={plain}", "x"),
		put("/v1/kv/none?release={plain}", "x"),
		put("/v1/kv/l", "advisory"),
		get("/v1/kv/l"),
		put("/v1/kv/l?release={full}", "free"),
		get("/v1/kv/l"),
		put("/v1/kv/l?acquire={plain}", "second"),
		get("/v1/kv/l"),
		// Release keeps the key, with the lock delay before the next.
		put("/v1/session/destroy/{plain}", ""),
		get("/v1/session/info/{plain}"),
		get("/v1/kv/l"),
		put("/v1/kv/l?acquire={full}", "too soon"),
		put("/v1/txn", `[{"KV":{"Verb":"lock","Key":"l","Session":"{full}","Value":"dg=="}}]`),
		// Delete takes it away.
		put("/v1/kv/m?acquire={full}", "mine"),
		put("/v1/session/destroy/{full}", ""),
		get("/v1/kv/m"),
		// A session ends with its check, its node's and its service's.
		put("/v1/agent/check/pass/service:s", ""),
		named("bound", `{"ServiceChecks":[{"ID":"service:s"}],"Behavior":"delete"}`),
		get("/v1/session/info/{bound}"),
		put("/v1/kv/b?acquire={bound}", "v"),
		put("/v1/agent/check/warn/service:s", ""),
		get("/v1/session/info/{bound}"),
		put("/v1/agent/check/fail/service:s", ""),
		get("/v1/session/info/{bound}"),
		get("/v1/kv/b"),
	})
}

func TestRecordedTxn(t *testing.T) {
	kv := func(ops ...string) request {
		var all []string
		for _, op := range ops {
			all = append(all, `{"KV":`+op+`}`)
		}
		return put("/v1/txn", "["+strings.Join(all, ",")+"]")
	}
	var many []string
	for i := range 129 {
		many = append(many, fmt.Sprintf(`{"Verb":"get","Key":"k%d"}`, i))
	}
	record(t, "txn", []request{
		put("/v1/txn", `[]`),
		put("/v1/txn", `{`),
		put("/v1/txn", `[{"Session":{"Verb":"delete"}}]`),
		put("/v1/txn", `[{}]`),
		put("{old}=/v1/session/create", `{"Behavior":"delete","LockDelay":"1ms"}`),
		put("{new}=/v1/session/create", `{"Behavior":"delete","LockDelay":"1ms"}`),
		kv(`{"Verb":"check-not-exists","Key":"c"}`, `{"Verb":"lock","Key":"c","Session":"{old}","Value":"b2xk"}`),
		kv(`{"Verb":"check-not-exists","Key":"c"}`, `{"Verb":"lock","Key":"c","Session":"{old}","Value":"b2xk"}`),
		// Taking a claim over: only if it is still the old one's.
		kv(`{"Verb":"check-session","Key":"c","Session":"{old}"}`, `{"Verb":"unlock","Key":"c","Session":"{old}"}`, `{"Verb":"lock","Key":"c","Session":"{new}","Value":"bmV3"}`),
		get("/v1/kv/c"),
		kv(`{"Verb":"check-session","Key":"c","Session":"{old}"}`, `{"Verb":"unlock","Key":"c","Session":"{old}"}`, `{"Verb":"lock","Key":"c","Session":"{new}","Value":"bmV3"}`),
		put("/v1/session/destroy/{old}", ""),
		get("/v1/kv/c"),
		// A failure undoes all, and every failure is named.
		kv(`{"Verb":"set","Key":"w","Value":"dg=="}`, `{"Verb":"check-session","Key":"c","Session":"zz"}`, `{"Verb":"get","Key":"none"}`,
			`{"Verb":"check-index","Key":"c","Index":3}`, `{"Verb":"check-index","Key":"none","Index":3}`, `{"Verb":"check-session","Key":"none","Session":"zz"}`,
			`{"Verb":"check-not-exists","Key":"c"}`, `{"Verb":"lock","Key":"c","Session":"zz"}`, `{"Verb":"lock","Key":"x"}`,
			`{"Verb":"unlock","Key":"c","Session":"zz"}`, `{"Verb":"unlock","Key":"c"}`, `{"Verb":"cas","Key":"c","Index":1}`, `{"Verb":"delete-cas","Key":"c","Index":1}`,
			`{"Verb":"wat","Key":"c"}`),
		get("/v1/kv/w"),
		kv(`{"Verb":"set","Key":"w","Value":"dg==","Flags":9}`, `{"Verb":"get","Key":"w"}`, `{"Verb":"cas","Key":"n","Index":0,"Value":"bg=="}`,
			`{"Verb":"get-or-empty","Key":"none"}`, `{"Verb":"get-tree","Key":"w"}`, `{"Verb":"delete","Key":"w"}`, `{"Verb":"check-not-exists","Key":"w"}`,
			`{"Verb":"delete-cas","Key":"none","Index":1}`, `{"Verb":"delete-tree","Key":"none"}`),
		kv(`{"Verb":"get","Key":"n"}`, `{"Verb":"check-session","Key":"c","Session":"{new}"}`),
		kv(`{"Verb":"get-tree","Key":""}`),
		kv(`{"Verb":"get-tree","Key":"none"}`),
		kv(`{"Verb":"get","Key":"none"}`),
		kv(`{"Verb":"delete-tree","Key":""}`),
		get("/v1/kv/?keys"),
		kv(many...),
		kv(`{"Verb":"set","Key":"big","Value":"` + strings.Repeat("AAAA", 140<<10) + `"}`),
	})
}
