package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// shop is order-service with a baseline and dev-alice's instance, inventory
// with a baseline only, and a host outside.
type shop struct {
	*env
	base, alice, inventory, outside *backend
}

func newShop(t testing.TB, change func(*Config)) *shop {
	s := &shop{base: newBackend(t, "base", nil), alice: newBackend(t, "alice", nil),
		inventory: newBackend(t, "inventory", nil), outside: newBackend(t, "outside", nil)}
	s.env = newEnv(t, change)
	s.reg.names = []string{"order-service", "inventory", "consul"}
	s.reg.set(
		service("order-service", instance("o-base", s.base.addr(), ""), instance("o-alice", s.alice.addr(), "dev-alice")),
		service("inventory", instance("i-base", s.inventory.addr(), "")))
	return s
}

func TestForwardRoutes(t *testing.T) {
	s := newShop(t, nil)
	tests := []struct {
		name, url, tag string
		who, decision  string
	}{
		{"the session's lane", "http://order-service/x", "", "alice", "LANE_MATCH; lane=dev-alice; instance=o-alice"},
		{"the port is ignored", "http://order-service:9999/x", "", "alice", "LANE_MATCH; lane=dev-alice; instance=o-alice"},
		{"upper case", "http://Order-Service./x", "", "alice", "LANE_MATCH; lane=dev-alice; instance=o-alice"},
		{"consul's name", "http://order-service.service.consul/x", "", "alice", "LANE_MATCH; lane=dev-alice; instance=o-alice"},
		{"consul's name with datacenter", "http://order-service.service.dc1.consul/x", "", "alice", "LANE_MATCH; lane=dev-alice; instance=o-alice"},
		{"kubernetes' name", "http://order-service.shop.svc.cluster.local:8080/x", "", "alice", "LANE_MATCH; lane=dev-alice; instance=o-alice"},
		{"an instance's own address", "http://" + s.base.addr() + "/x", "", "alice", "LANE_MATCH; lane=dev-alice; instance=o-alice"},
		{"fallback, counted", "http://inventory/x", "", "inventory", "FALLBACK_BASELINE; lane=dev-alice; reason=lane_absent; instance=i-base"},
		{"explicit baseline", "http://order-service/x", "baseline", "base", "BASELINE; reason=explicit_baseline; instance=o-base"},
		{"own tag of another lane", "http://order-service/x", "dev-bob", "base", "FALLBACK_BASELINE; lane=dev-bob; reason=lane_absent; instance=o-base"},
		{"external", s.outside.URL + "/x", "", "outside", "PASSTHROUGH_EXTERNAL"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var kv []string
			if tt.tag != "" {
				kv = []string{"x-lane-tag", tt.tag}
			}
			a := s.get(tt.url, kv...)
			if a.status != 200 || a.header.Get("X-Who") != tt.who {
				t.Fatalf("got %d from %q: %s", a.status, a.header.Get("X-Who"), a.body)
			}
			if got := a.header.Get(lane.HeaderDecision); !strings.HasPrefix(got, tt.decision) {
				t.Errorf("decision %q, want %q", got, tt.decision)
			}
			ex := s.exchange(uint64(i + 1))
			if ex.Status != 200 || ex.Front != traffic.FrontForward || ex.URL != tt.url || ex.From == "" || ex.Method != "GET" {
				t.Errorf("exchange %+v", ex)
			}
			if ex.ResSize != int64(len(a.body)) {
				t.Errorf("recorded %d bytes of %d", ex.ResSize, len(a.body))
			}
		})
	}
	if n := s.tr.Counts().By(traffic.CountFallback)["lane_absent"]; n != 2 {
		t.Errorf("%d fallbacks counted, want 2", n)
	}
	if n := s.tr.Counts().Total(traffic.CountMatched); n != 7 {
		t.Errorf("%d matches counted, want 7", n)
	}
	if n := s.tr.Counts().Total(traffic.CountExternal); n != 1 {
		t.Errorf("%d external counted, want 1", n)
	}
	if n := s.tr.Counts().Total(traffic.CountRequests); n != uint64(len(tests)) {
		t.Errorf("%d requests counted, want %d", n, len(tests))
	}
}

func TestForwardRefuses(t *testing.T) {
	s := newShop(t, nil)
	declared := lane.NewService("declared", []lane.Instance{instance("d-base", s.base.addr(), "")}, []lane.Name{"dev-alice"})
	sick := instance("s-alice", s.alice.addr(), "dev-alice")
	sick.Health = lane.Critical
	s.reg.set(declared, service("sick", instance("s-base", s.base.addr(), ""), sick),
		service("order-service", instance("o-base", s.base.addr(), "")),
		service("gone", instance("g-bob", s.base.addr(), "dev-bob")))
	tests := []struct {
		name, url string
		kv        []string
		status    int
		code      lane.Code
		say       string
	}{
		{"invalid tag", "http://order-service/", []string{"x-lane-tag", "Not A Lane"}, 400, lane.CodeTagInvalid, ""},
		{"two tags", "http://order-service/", []string{"x-lane-tag", "dev-a", "x-lane-tag", "dev-b"}, 400, lane.CodeTagInvalid, ""},
		{"declared and absent", "http://declared/", nil, 503, lane.CodeLaneUnhealthy, ""},
		{"registered and unhealthy", "http://sick/", nil, 503, lane.CodeLaneUnhealthy, ""},
		{"only another lane's", "http://gone/", nil, 503, lane.CodeNoBaseline, ""},
		{"unknown bare name", "http://order-servise/", nil, 503, lane.CodeNoInstances, "order-service"},
		{"unknown full name", "http://inventary.service.consul/", nil, 503, lane.CodeNoInstances, "inventory"},
		{"too many hops", "http://order-service/", []string{"x-lane-hops", "16"}, 508, lane.CodeLoopDetected, ""},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := s.get(tt.url, tt.kv...)
			if a.status != tt.status || a.header.Get(lane.HeaderError) != string(tt.code) {
				t.Fatalf("got %d %s: %s", a.status, a.header.Get(lane.HeaderError), a.body)
			}
			var body map[string]string
			if err := json.Unmarshal([]byte(a.body), &body); err != nil {
				t.Fatal(err)
			}
			for _, k := range []string{"code", "message", "service", "lane", "reason", "trace_id", "hint"} {
				if _, ok := body[k]; !ok {
					t.Errorf("body lacks %q: %s", k, a.body)
				}
			}
			if body["code"] != string(tt.code) || !strings.Contains(a.body, tt.say) {
				t.Errorf("body %s", a.body)
			}
			if d := a.header.Get(lane.HeaderDecision); !strings.HasPrefix(d, "ERROR") {
				t.Errorf("decision %q", d)
			}
			if ex := s.exchange(uint64(i + 1)); ex.Code != tt.code || ex.Status != tt.status {
				t.Errorf("exchange %+v", ex)
			}
		})
	}
	if s.base.hits.Load()+s.alice.hits.Load() != 0 {
		t.Error("a refused request has arrived")
	}
	var sum uint64
	for _, n := range s.tr.Counts().By(traffic.CountErrors) {
		sum += n
	}
	if sum != uint64(len(tests)) {
		t.Errorf("%d errors counted, want %d", sum, len(tests))
	}
}

// A service whose first answer does not come is not absent.
func TestFirstAnswer(t *testing.T) {
	s := newShop(t, nil)
	late := service("late", instance("l-base", s.base.addr(), ""))
	s.reg.need = func(ctx context.Context, name string) error {
		if name == "late" {
			s.reg.set(late)
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	if a := s.get("http://late/"); a.status != 200 {
		t.Errorf("late: %d %s", a.status, a.body)
	}
	a := s.get("http://never/") // which ends: the wait is bounded
	if a.status != 503 || a.header.Get(lane.HeaderError) != string(lane.CodeRegistryUnavailable) {
		t.Errorf("never: %d %s", a.status, a.body)
	}
	s.reg.need = func(ctx context.Context, name string) error {
		if ctx.Err() == nil {
			t.Error("a request for a known service may wait for the registry")
		}
		return nil
	}
	if a := s.get("http://late/"); a.status != 200 {
		t.Errorf("late again: %d", a.status)
	}
}

func TestRefusedHead(t *testing.T) {
	s := newShop(t, nil)
	a := do(t, s.client(), "HEAD", "http://nothing-here/", nil, nil)
	if a.status != 503 || a.header.Get(lane.HeaderError) != string(lane.CodeNoInstances) || a.body != "" {
		t.Errorf("%+v", a)
	}
	if ex := s.exchange(1); ex.Err != "" || ex.Status != 503 {
		t.Errorf("%+v", ex)
	}
}

func TestBareNameOfTheNetwork(t *testing.T) {
	s := newShop(t, func(c *Config) {
		c.Resolves = func(_ context.Context, host string) bool { return host == "printer" }
	})
	a := s.get("http://printer/")
	// It is external, so it is dialled under its name, which does not exist here.
	if got := a.header.Get(lane.HeaderError); got != string(lane.CodeUpstreamConnect) || s.exchange(1).Kind != lane.KindExternal {
		t.Errorf("%d %s %s", a.status, got, a.body)
	}
}

// While the registry is away a bare name is a service, unless a recent answer
// says that it is none.
func TestBareNameWhileTheRegistryIsAway(t *testing.T) {
	now := time.Now()
	s := newShop(t, func(c *Config) {
		c.Resolves = func(context.Context, string) bool { return true }
		c.Now = func() time.Time { return now }
	})
	s.reg.need = func(context.Context, string) error { return errors.New("away") }
	for _, tt := range []struct {
		name  string
		trust lane.Trust
		known []*lane.Service
		code  lane.Code
		kind  lane.Kind
	}{
		{"never seen", lane.Trust{State: lane.Unreachable, Since: now}, nil, lane.CodeRegistryUnavailable, lane.KindError},
		{"a recent answer", lane.Trust{State: lane.Stale, Since: now.Add(-time.Minute)}, []*lane.Service{service("printer")}, lane.CodeUpstreamConnect, lane.KindExternal},
		{"an old answer", lane.Trust{State: lane.Stale, Since: now.Add(-time.Hour)}, []*lane.Service{service("printer")}, lane.CodeNoInstances, lane.KindError},
	} {
		s.reg.cat.Store(lane.NewCatalog(tt.trust, nil, lane.Switches{}, tt.known...))
		before := s.log.Last()
		a := s.get("http://printer/")
		if ex := s.exchange(before + 1); a.header.Get(lane.HeaderError) != string(tt.code) || ex.Kind != tt.kind {
			t.Errorf("%s: %d %s %s", tt.name, a.status, a.body, ex.Kind)
		}
	}
}
