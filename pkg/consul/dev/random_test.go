package dev_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lane/pkg/consul/consultest"
)

// Conversations that nobody thought of: the same random requests to the embedded
// registry and to the real Consul, and every answer must be the same, the moving
// of each index included. The embedded one by itself has to answer all of it with an
// index that is never 0.
func TestRandomConversations(t *testing.T) {
	t.Parallel()
	const steps = 150
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Run("embedded", func(t *testing.T) { converse(t, seed, steps, nil) })
			t.Run("consul", func(t *testing.T) {
				converse(t, seed, steps, newSpeaker(t, consultest.Start(t, consultest.Needed(t))))
			})
		})
	}
}

// converse has a conversation with an embedded registry, and the same one with the real
// one if there is one.
func converse(t *testing.T, seed uint64, steps int, real *speaker) {
	t.Helper()
	embedded := newSpeaker(t, consultest.Embedded(t))
	random := rand.New(rand.NewPCG(seed, 1))
	var past []string
	for range steps {
		r := randomRequest(random)
		got := embedded.say(r)
		past = append(past, r.method+" "+r.path+" "+r.body)
		if real == nil {
			continue
		}
		if want := real.say(r); got != want {
			t.Fatalf("after\n%s\n(-consul +embedded)\n%s", strings.Join(past, "\n"), cmp.Diff(want, got))
		}
	}
}

// speaker talks to one registry and remembers what it must translate: session
// ids, and the last index of each path.
type speaker struct {
	*world
	sessions []string
	index    map[string]uint64
}

func newSpeaker(t *testing.T, addr string) *speaker {
	t.Helper()
	return &speaker{world: newWorld(t, addr), index: map[string]uint64{}}
}

// say asks and renders the answer with session ids by number, and the index as
// "same", "forward" or "back" since the last time that the path was asked.
func (s *speaker) say(r request) string {
	s.t.Helper()
	for i := range 3 {
		id := "00000000-0000-0000-0000-000000000000"
		if i < len(s.sessions) {
			id = s.sessions[len(s.sessions)-1-i]
		}
		name := fmt.Sprintf("{%d}", i)
		r.path, r.body = strings.ReplaceAll(r.path, name, id), strings.ReplaceAll(r.body, name, id)
	}
	a := s.http(r.method, r.path, r.body)
	if strings.HasSuffix(r.path, "/session/create") && a.code == http.StatusOK {
		s.sessions = append(s.sessions, uuid.FindString(a.body))
	}
	a.body = unordered(r.path, a.body)
	if strings.HasPrefix(r.path, "/v1/session/list") || strings.HasPrefix(r.path, "/v1/session/node/") {
		a.body = s.byAge(a.body) // they come by their random ids
	}
	if strings.HasPrefix(r.path, "/v1/agent/health/") {
		a.header.Del("X-Consul-Reason") // of two that are as bad, the first of a map
	}
	if v := a.header.Get("X-Consul-Index"); v != "" {
		now, err := strconv.ParseUint(v, 10, 64)
		s.must(err)
		last, asked := s.index[r.path]
		if now == 0 {
			s.t.Errorf("%s: index 0, and the client would ask for ever", r.path)
		}
		moved := "first"
		if asked && now == last {
			moved = "same"
		} else if asked {
			moved = "forward"
			if now < last {
				moved = "back" // Consul's may, when what had the greatest is gone
			}
		}
		s.index[r.path] = now
		a.header.Set("X-Consul-Index", moved)
	}
	out := render(r, a)
	out = strings.ReplaceAll(out, "X-Consul-Index: N", "X-Consul-Index: "+a.header.Get("X-Consul-Index"))
	for i, id := range s.sessions {
		out = strings.ReplaceAll(out, id, fmt.Sprintf("session-%d", i))
	}
	return out
}

func (s *speaker) byAge(body string) string {
	var list []map[string]any
	s.must(json.Unmarshal([]byte(body), &list))
	slices.SortFunc(list, func(a, b map[string]any) int {
		return cmpNumbers(a["CreateIndex"], b["CreateIndex"])
	})
	data, err := json.Marshal(list)
	s.must(err)
	return string(data)
}

func cmpNumbers(a, b any) int {
	x, _ := a.(float64)
	y, _ := b.(float64)
	return int(x - y)
}

func randomRequest(random *rand.Rand) request {
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	key := func() string { return pick("a", "a/b", "a/c", "b", "b/x/y") }
	session := func() string { return pick("{0}", "{1}", "{2}") }
	service := func() string { return pick("web", "api") }
	id := func() string { return pick("web", "api", "i1", "i2") }
	status := func() string { return pick("passing", "warning", "critical") }
	switch random.IntN(28) {
	case 0, 1:
		return put("/v1/agent/service/register"+pick("", "?replace-existing-checks=true"), fmt.Sprintf(
			`{"ID":%q,"Name":%q,"Port":%s,"Meta":{"lane":%q},"Check":{"TTL":"1h","Status":%q}}`,
			id(), service(), pick("1", "2"), pick("", "x"), pick("", status())))
	case 2:
		return put("/v1/agent/service/deregister/"+id(), "")
	case 3, 4:
		return put("/v1/agent/check/update/service:"+id(), fmt.Sprintf(`{"Status":%q,"Output":"o"}`, status()))
	case 5:
		return put("/v1/agent/service/maintenance/"+id()+"?enable="+pick("true", "false"), "")
	case 6, 7:
		return put("/v1/kv/"+key()+pick("", "", "?flags=1", "?cas=0"), pick("v", "w", ""))
	case 8:
		return put("/v1/kv/"+key()+"?"+pick("acquire", "acquire", "release")+"="+session(), pick("v", "w"))
	case 9:
		return del("/v1/kv/" + key() + pick("", "?recurse", "?cas=1"))
	case 10:
		return put("/v1/session/create", fmt.Sprintf(`{"Behavior":%q,"LockDelay":"1h","NodeChecks":[]}`, pick("delete", "release")))
	case 11:
		return put("/v1/session/create", fmt.Sprintf(`{"Behavior":%q,"LockDelay":"1h","ServiceChecks":[{"ID":"service:%s"}]}`, pick("delete", "release"), id()))
	case 12:
		return put("/v1/session/destroy/"+session(), "")
	case 13:
		ops := []string{}
		for range 1 + random.IntN(3) {
			ops = append(ops, fmt.Sprintf(`{"KV":{"Verb":%q,"Key":%q,"Session":%q,"Value":"dg=="}}`,
				pick("set", "get", "lock", "unlock", "check-session", "check-not-exists", "delete", "delete-tree", "get-tree", "cas", "get-or-empty"), key(), session()))
		}
		return put("/v1/txn", "["+strings.Join(ops, ",")+"]")
	case 14, 15:
		return get("/v1/health/service/" + service() + pick("", "?passing", "?filter="+escape(`Service.Meta.lane == "x"`)))
	case 16:
		return get("/v1/catalog/service/" + service())
	case 17:
		return get("/v1/kv/" + key() + pick("", "?recurse", "?keys"))
	case 18:
		return get(pick("/v1/catalog/services", "/v1/catalog/nodes", "/v1/catalog/node/dev"))
	case 19:
		return get(pick("/v1/health/node/dev", "/v1/health/state/any", "/v1/health/state/critical", "/v1/health/checks/web"))
	case 20:
		return get("/v1/session/info/" + session())
	case 21:
		return put("/v1/catalog/register", fmt.Sprintf(`{"Node":"ext","Address":"10.0.0.%s","NodeMeta":{"a":%q},"Service":{"ID":%q,"Service":%q,"Port":3},"Check":{"CheckID":"ec","Name":"ec","Status":%q,"ServiceID":%q}}`,
			pick("1", "1", "2"), pick("b", "c"), "web", service(), status(), pick("web", "web", "api")))
	case 22:
		return put("/v1/catalog/register", fmt.Sprintf(`{"Node":"ext","Address":"10.0.0.1","SkipNodeUpdate":%s,"Check":{"CheckID":"nc","Name":"nc","Status":%q}}`, pick("true", "false"), status()))
	case 23:
		return put("/v1/catalog/deregister", pick(`{"Node":"ext"}`, `{"Node":"ext","ServiceID":"web"}`, `{"Node":"ext","CheckID":"nc"}`, `{"Node":"ext","CheckID":"ec"}`))
	case 24:
		return put("/v1/agent/check/register", fmt.Sprintf(`{"ID":%q,"Name":"n","TTL":"1h","Status":%q,"ServiceID":%q}`, pick("c1", "c2"), status(), pick("", id())))
	case 25:
		return put("/v1/agent/check/"+pick("deregister/", "pass/", "fail/")+pick("c1", "c2"), "")
	case 26:
		return get(pick("/v1/catalog/node/ext", "/v1/health/node/ext", "/v1/session/list", "/v1/session/node/ext", "/v1/session/node/dev"))
	default:
		return get(pick("/v1/agent/services", "/v1/agent/checks", "/v1/agent/health/service/name/web"))
	}
}
