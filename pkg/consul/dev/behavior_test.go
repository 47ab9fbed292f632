package dev_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"lane/pkg/consul/consultest"
)

func indexes(t *testing.T) {
	modify := func(w *world) uint64 {
		w.t.Helper()
		got, _, err := w.Health().Service(w.svc, "", false, nil)
		w.must(err)
		w.equal("instances", len(got), 1)
		return got[0].Service.ModifyIndex
	}
	runConformance(t, []conformance{
		{"the same registration keeps status and indexes", func(w *world) {
			id := w.svc + "-1"
			w.register(id, ttl(""), metadata("a", "b"))
			w.must(w.Agent().UpdateTTL("service:"+id, "fine", "pass"))
			index, changed := w.index(w.health), modify(w)
			w.register(id, ttl(""), metadata("a", "b"))
			w.equal("query index", w.index(w.health), index)
			w.equal("modify index", modify(w), changed)
			checks, _, err := w.Health().Checks(w.svc, nil)
			w.must(err)
			w.equal("check", []string{checks[0].Status, checks[0].Output}, []string{"passing", "fine"})
		}},
		{"a changed registration moves the indexes and keeps the status", func(w *world) {
			id := w.svc + "-1"
			w.register(id, ttl(""))
			w.must(w.Agent().UpdateTTL("service:"+id, "fine", "pass"))
			index, changed := w.index(w.health), modify(w)
			w.register(id, ttl(""), metadata("a", "c"))
			if now := modify(w); now <= changed || w.index(w.health) <= index {
				w.t.Errorf("modify index %d, was %d", now, changed)
			}
			passing, _, err := w.Health().Service(w.svc, "", true, nil)
			w.must(err)
			w.equal("passing", ids(passing), []string{id})
		}},
		{"a status moves the query's index, not the instance's", func(w *world) {
			id := w.svc + "-1"
			w.register(id, ttl(""))
			index, changed := w.index(w.health), modify(w)
			w.must(w.Agent().UpdateTTL("service:"+id, "", "pass"))
			w.equal("modify index", modify(w), changed)
			if now := w.index(w.health); now <= index {
				w.t.Errorf("query index %d, want more than %d", now, index)
			}
		}},
		{"deregistering the last instance moves the index forward", func(w *world) {
			w.register(w.svc + "-1")
			index := w.index(w.health)
			w.must(w.Agent().ServiceDeregister(w.svc + "-1"))
			if now := w.index(w.health); now <= index {
				w.t.Errorf("index %d, want more than %d", now, index)
			}
		}},
		{"an absent service's index moves with another's removal", func(w *world) {
			other := &world{t: w.t, addr: w.addr, Client: w.Client, svc: w.svc + "-other"}
			other.register(w.svc + "-other-1")
			w.must(w.Agent().ServiceDeregister(w.svc + "-other-1"))
			index := w.index(w.health)
			other.register(w.svc + "-other-1")
			w.equal("after a registration", w.index(w.health), index)
			w.must(w.Agent().ServiceDeregister(w.svc + "-other-1"))
			if now := w.index(w.health); now <= index {
				w.t.Errorf("index %d, want more than %d", now, index)
			}
		}},
		{"a key keeps its index for the same value", func(w *world) {
			put := func(value string) uint64 {
				_, err := w.KV().Put(&api.KVPair{Key: w.svc, Value: []byte(value), Flags: 1}, nil)
				w.must(err)
				pair, _, err := w.KV().Get(w.svc, nil)
				w.must(err)
				return pair.ModifyIndex
			}
			first := put("a")
			w.equal("same", put("a"), first)
			if now := put("b"); now <= first {
				w.t.Errorf("changed: index %d, want more than %d", now, first)
			}
		}},
		{"cas with the right index, and with a stale one", func(w *world) {
			_, err := w.KV().Put(&api.KVPair{Key: w.svc, Value: []byte("a")}, nil)
			w.must(err)
			pair, _, err := w.KV().Get(w.svc, nil)
			w.must(err)
			stale := pair.ModifyIndex
			for _, want := range []bool{true, false} {
				ok, _, err := w.KV().CAS(&api.KVPair{Key: w.svc, Value: []byte("b"), ModifyIndex: stale}, nil)
				w.must(err)
				w.equal("cas", ok, want)
			}
			ok, _, err := w.KV().DeleteCAS(&api.KVPair{Key: w.svc, ModifyIndex: stale}, nil)
			w.must(err)
			w.equal("delete with a stale index", ok, false)
		}},
		{"a missing key is no error and has an index", func(w *world) {
			pair, qm, err := w.KV().Get(w.svc, nil)
			w.must(err)
			if pair != nil || qm.LastIndex == 0 {
				w.t.Errorf("pair %v, index %d", pair, qm.LastIndex)
			}
		}},
	})
}

func sessionsAndLocks(t *testing.T) {
	acquire := func(w *world, session string) bool {
		w.t.Helper()
		ok, _, err := w.KV().Acquire(&api.KVPair{Key: w.svc, Value: []byte(session), Session: session}, nil)
		w.must(err)
		return ok
	}
	runConformance(t, []conformance{
		{"behavior delete takes the key, and a lock delay of 1 ms is soon over", func(w *world) {
			a := w.session(&api.SessionEntry{Behavior: "delete", LockDelay: time.Millisecond, TTL: "10s"})
			b := w.session(&api.SessionEntry{Behavior: "delete", LockDelay: time.Millisecond})
			w.equal("first", acquire(w, a), true)
			w.equal("held", acquire(w, b), false)
			_, err := w.Session().Destroy(a, nil)
			w.must(err)
			pair, _, err := w.KV().Get(w.svc, nil)
			w.must(err)
			w.equal("gone", pair == nil, true)
			for deadline := time.Now().Add(soon); !acquire(w, b); {
				if time.Now().After(deadline) {
					w.t.Fatal("the lock delay does not end")
				}
			}
		}},
		{"the default lock delay holds the next one off", func(w *world) {
			a := w.session(&api.SessionEntry{Behavior: "release"})
			b := w.session(&api.SessionEntry{})
			w.equal("first", acquire(w, a), true)
			_, err := w.Session().Destroy(a, nil)
			w.must(err)
			w.equal("at once", acquire(w, b), false)
			pair, _, err := w.KV().Get(w.svc, nil)
			w.must(err)
			w.equal("kept, unlocked", []any{pair.Session, pair.LockIndex}, []any{"", 1})
		}},
		{"a released lock has no delay", func(w *world) {
			a, b := w.session(&api.SessionEntry{}), w.session(&api.SessionEntry{})
			w.equal("first", acquire(w, a), true)
			ok, _, err := w.KV().Release(&api.KVPair{Key: w.svc, Session: a}, nil)
			w.must(err)
			w.equal("released", ok, true)
			w.equal("next", acquire(w, b), true)
			pair, _, err := w.KV().Get(w.svc, nil)
			w.must(err)
			w.equal("lock index", pair.LockIndex, uint64(2))
		}},
		{"a deleted key frees the lock at once", func(w *world) {
			a, b := w.session(&api.SessionEntry{}), w.session(&api.SessionEntry{})
			w.equal("first", acquire(w, a), true)
			_, err := w.KV().Delete(w.svc, nil)
			w.must(err)
			w.equal("next", acquire(w, b), true)
		}},
		{"renewing an unknown session is no error", func(w *world) {
			e, _, err := w.Session().Renew("00000000-0000-0000-0000-000000000000", nil)
			if e != nil || err != nil {
				w.t.Errorf("got %v %v, want nothing", e, err)
			}
		}},
		{"renewing a known one gives it back", func(w *world) {
			id := w.session(&api.SessionEntry{TTL: "10s", Name: "n"})
			e, _, err := w.Session().Renew(id, nil)
			w.must(err)
			w.equal("session", []any{e.ID, e.Name, e.TTL, e.NodeChecks}, []any{id, "n", "10s", []string{}})
		}},
		{"a session with node checks has serfHealth", func(w *world) {
			id, _, err := w.Session().Create(&api.SessionEntry{LockDelay: 2 * time.Second}, nil)
			w.must(err)
			w.t.Cleanup(func() { _, _ = w.Session().Destroy(id, nil) })
			e, _, err := w.Session().Info(id, nil)
			w.must(err)
			w.equal("session", []any{e.NodeChecks, e.LockDelay, e.Behavior, e.Node}, []any{[]string{"serfHealth"}, 2 * time.Second, "release", w.node})
		}},
		{"acquiring with an unknown session is 500", func(w *world) {
			_, _, err := w.KV().Acquire(&api.KVPair{Key: w.svc, Session: "none"}, nil)
			w.equal("code", code(err), 500)
		}},
		{"taking a claim over in one transaction", func(w *world) {
			old := w.session(&api.SessionEntry{Behavior: "delete", LockDelay: time.Millisecond})
			next := w.session(&api.SessionEntry{Behavior: "delete", LockDelay: time.Millisecond})
			w.equal("first", acquire(w, old), true)
			takeOver := func() (bool, *api.KVTxnResponse) {
				ok, resp, _, err := w.KV().Txn(api.KVTxnOps{
					{Verb: api.KVCheckSession, Key: w.svc, Session: old},
					{Verb: api.KVUnlock, Key: w.svc, Session: old},
					{Verb: api.KVLock, Key: w.svc, Session: next, Value: []byte("next")},
				}, nil)
				w.must(err)
				return ok, resp
			}
			ok, resp := takeOver()
			w.equal("taken", []any{ok, len(resp.Results), len(resp.Errors)}, []any{true, 3, 0})
			pair, _, err := w.KV().Get(w.svc, nil)
			w.must(err)
			w.equal("pair", []any{pair.Session, string(pair.Value), pair.LockIndex}, []any{next, "next", 2})
			ok, resp = takeOver()
			w.equal("again", []any{ok, len(resp.Results), resp.Errors[0].OpIndex}, []any{false, 0, 0})
			// The old session's end does not touch what it no longer holds.
			_, err = w.Session().Destroy(old, nil)
			w.must(err)
			pair, _, err = w.KV().Get(w.svc, nil)
			w.must(err)
			w.equal("still", pair.Session, next)
		}},
	})
}

// cacheHit reads through the agent's cache, and says whether the answer was there.
func (w *world) cacheHit() bool {
	w.t.Helper()
	_, qm, err := w.Health().Service(w.svc, "", false, &api.QueryOptions{UseCache: true})
	w.must(err)
	return qm.CacheHit
}

// Consul can say of its first answer, too, that it was there: when it came before
// somebody had to wait for it.
func TestTheFirstCachedReadMisses(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	w.equal("hit", w.cacheHit(), false)
	w.equal("hit", w.cacheHit(), true)
}

func clientView(t *testing.T) {
	runConformance(t, []conformance{
		{"a read says leader, contact and index", func(w *world) {
			_, qm, err := w.Health().Service("consul", "", false, nil)
			w.must(err)
			w.equal("meta", []any{qm.KnownLeader, qm.LastContact, qm.LastIndex > 0, qm.DefaultACLPolicy}, []any{true, 0, true, "allow"})
		}},
		{"a blocking health read has no known leader", func(w *world) {
			_, qm, err := w.Health().Service("consul", "", false, &api.QueryOptions{WaitIndex: 1, WaitTime: time.Second})
			w.must(err)
			w.equal("known leader", qm.KnownLeader, false)
		}},
		{"a cached read hits the second time", func(w *world) {
			w.cacheHit()
			w.equal("hit", w.cacheHit(), true)
		}},
		{"a cached read sees a registration soon", func(w *world) {
			o := &api.QueryOptions{UseCache: true}
			_, _, err := w.Health().Service(w.svc, "", false, o)
			w.must(err)
			w.register(w.svc + "-1")
			for deadline := time.Now().Add(soon); ; {
				got, _, err := w.Health().Service(w.svc, "", false, o)
				w.must(err)
				if len(got) == 1 {
					return
				}
				if time.Now().After(deadline) {
					w.t.Fatal("never seen")
				}
			}
		}},
		{"the leader and the node's name", func(w *world) {
			leader, err := w.Status().Leader()
			w.must(err)
			peers, err := w.Status().Peers()
			w.must(err)
			name, err := w.Agent().NodeName()
			w.must(err)
			w.equal("name and peers", []any{name, peers}, []any{"dev", []string{leader}})
		}},
		{"the agent's own account", func(w *world) {
			self, err := w.Agent().Self()
			w.must(err)
			c := self["Config"]
			w.equal("config", []any{c["Datacenter"], c["NodeName"], c["Server"], c["Version"]}, []any{"dc1", "dev", true, "1.14.11"})
			members, err := w.Agent().Members(false)
			w.must(err)
			w.equal("members", []any{len(members), members[0].Name, members[0].Status, members[0].Tags["role"]}, []any{1, "dev", 1, "consul"})
		}},
		{"warnings pass only when asked for all", func(w *world) {
			for _, s := range []string{"passing", "warning", "critical"} {
				w.register(w.svc+"-"+s, ttl(s))
			}
			all, _, err := w.Health().Service(w.svc, "", false, nil)
			w.must(err)
			w.equal("all", ids(all), []string{w.svc + "-critical", w.svc + "-passing", w.svc + "-warning"})
			passing, _, err := w.Health().Service(w.svc, "", true, nil)
			w.must(err)
			w.equal("passing", ids(passing), []string{w.svc + "-passing"})
		}},
		{"errors have their codes", func(w *world) {
			_, _, bad := w.Health().Service(w.svc, "", false, &api.QueryOptions{Filter: "nonsense"})
			_, _, ns := w.Health().Service(w.svc, "", false, &api.QueryOptions{Namespace: "team"})
			_, _, acl := w.ACL().TokenReadSelf(nil)
			beat := w.Agent().UpdateTTL("service:"+w.svc, "", "pass")
			gone := w.Agent().ServiceDeregister(w.svc)
			_, _, session := w.Session().Create(&api.SessionEntry{TTL: "5s"}, nil)
			meta := w.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: w.svc, Meta: map[string]string{"a.b": ""}})
			w.equal("codes", []int{code(bad), code(ns), code(acl), code(beat), code(gone), code(session), code(meta)},
				[]int{500, 400, 401, 404, 404, 500, 400})
		}},
		{"ids with colons and slashes", func(w *world) {
			id := "lane:dev/alice:" + w.svc + ":1"
			w.register(id, ttl("passing"))
			w.must(w.Agent().UpdateTTL("service:"+id, "", "warn"))
			svc, _, err := w.Agent().Service(id, nil)
			w.must(err)
			w.equal("id", svc.ID, id)
			status, info, err := w.Agent().AgentHealthServiceByID(id)
			w.must(err)
			w.equal("health", []any{status, info.Service.Service}, []any{"warning", w.svc})
			w.must(w.Agent().ServiceDeregister(id))
		}},
		{"maintenance makes a service critical", func(w *world) {
			id := w.svc + "-1"
			w.register(id, ttl("passing"))
			w.must(w.Agent().EnableServiceMaintenance(id, "pause"))
			status, _, err := w.Agent().AgentHealthServiceByName(w.svc)
			w.must(err)
			w.equal("status", status, "critical") // what the client makes of 503
			w.must(w.Agent().DisableServiceMaintenance(id))
			passing, _, err := w.Health().Service(w.svc, "", true, nil)
			w.must(err)
			w.equal("passing again", ids(passing), []string{id})
		}},
		{"an external node through the client", func(w *world) {
			node := w.svc + "-node"
			_, err := w.Catalog().Register(&api.CatalogRegistration{
				Node: node, Address: "10.1.1.1",
				Service: &api.AgentService{ID: w.svc, Service: w.svc, Port: 9, Meta: map[string]string{"lane": "l"}},
				Check:   &api.AgentCheck{Node: node, CheckID: "c", Name: "c", Status: "passing", ServiceID: w.svc},
			}, nil)
			w.must(err)
			w.t.Cleanup(func() { _, _ = w.Catalog().Deregister(&api.CatalogDeregistration{Node: node}, nil) })
			got, _, err := w.Health().Service(w.svc, "", true, nil)
			w.must(err)
			w.equal("instance", []any{len(got), got[0].Node.Address, got[0].Service.Meta, got[0].Service.Weights, len(got[0].Checks)},
				[]any{1, "10.1.1.1", map[string]string{"lane": "l"}, api.AgentWeights{Passing: 1, Warning: 1}, 1})
			w.equal("beat", code(w.Agent().UpdateTTL("c", "", "pass")), 404)
		}},
	})
}

// An HTTP and a TCP check are made for real.
func probes(t *testing.T) {
	status := func(w *world, want string) string {
		w.t.Helper()
		deadline := time.Now().Add(soon)
		for {
			checks, _, err := w.Health().Checks(w.svc, nil)
			w.must(err)
			if len(checks) == 1 && checks[0].Status == want && checks[0].Output != "" {
				return checks[0].Output
			}
			if time.Now().After(deadline) {
				w.t.Fatalf("checks %+v, want %s", checks, want)
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	runConformance(t, []conformance{
		{"HTTP by its code", func(w *world) {
			url := serve(w.t, func(rw http.ResponseWriter, req *http.Request) {
				codes := map[string]int{"/ok": 204, "/many": 429, "/bad": 500}
				rw.WriteHeader(codes[req.URL.Path])
			})
			for path, want := range map[string]string{"/ok": "passing", "/many": "warning"} {
				w.register(w.svc, func(r *api.AgentServiceRegistration) {
					r.Check = &api.AgentServiceCheck{CheckID: w.svc + path[1:], HTTP: url + path, Interval: "1s", Timeout: "1s"}
				})
				if out := status(w, want); !strings.HasPrefix(out, "HTTP GET "+url+path+": ") {
					w.t.Errorf("output %q", out)
				}
			}
		}},
		{"TCP that accepts", func(w *world) {
			url := serve(w.t, func(http.ResponseWriter, *http.Request) {})
			host := strings.TrimPrefix(url, "http://")
			w.register(w.svc, func(r *api.AgentServiceRegistration) {
				r.Check = &api.AgentServiceCheck{TCP: host, Interval: "1s"}
			})
			w.equal("output", status(w, "passing"), "TCP connect "+host+": Success")
		}},
		{"TCP that refuses", func(w *world) {
			w.register(w.svc, func(r *api.AgentServiceRegistration) {
				r.Check = &api.AgentServiceCheck{TCP: "127.0.0.1:1", Interval: "1s", Status: "passing"}
			})
			if out := status(w, "critical"); !strings.Contains(out, "refused") {
				w.t.Errorf("output %q", out)
			}
		}},
	})
}

func bigBodies(t *testing.T) {
	runConformance(t, []conformance{
		{"a value of 512 KiB is taken, one byte more is 413", func(w *world) {
			value := []byte(strings.Repeat("x", 512<<10))
			_, err := w.KV().Put(&api.KVPair{Key: w.svc, Value: value}, nil)
			w.must(err)
			pair, _, err := w.KV().Get(w.svc, nil)
			w.must(err)
			w.equal("same", slices.Equal(pair.Value, value), true)
			if _, err := w.KV().Delete(w.svc, nil); err != nil {
				w.t.Error(err)
			}
			r := w.http(http.MethodPut, "/v1/kv/"+w.svc, string(value)+"x")
			w.equal("code", r.code, 413)
		}},
	})
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}
