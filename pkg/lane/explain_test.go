package lane

import "testing"

func TestExplain(t *testing.T) {
	instances := []Instance{
		{ID: "b1", Env: "test", Weight: 1},
		{ID: "bob", Env: "test", MetaLane: "dev-bob", Weight: 1},
		{ID: "drain", Env: "test", MetaLane: "gray", Weight: 1, Draining: true},
		{ID: "g1", Env: "test", MetaLane: "gray", Weight: 1, Addr: "h:1"},
		{ID: "ill", Env: "test", MetaLane: "gray", Weight: 1, Health: Critical, HealthNote: "connection refused"},
		{ID: "lap", Env: "test", Weight: 1, Local: true},
		{ID: "prod", Env: "prod", MetaLane: "gray", Weight: 1},
		{ID: "q", Env: "test", MetaLane: "Bad Lane", Weight: 1},
		{ID: "self", Env: "test", MetaLane: "gray", Weight: 1, Addr: "h:2"},
		{ID: "warn", Env: "test", MetaLane: "gray", Weight: 1, Health: Warning},
		{ID: "zero", Env: "test", MetaLane: "gray"},
		{ID: "zone", Env: "test", MetaLane: "gray", Weight: 1, Zone: "z2"},
	}
	c := NewCatalog(Trust{}, nil, Switches{}, NewService("orders", instances, nil))
	caller := Caller{Env: "test", Self: "h:2"}
	for _, tc := range []struct {
		name   string
		policy func(*Policy)
		req    Request
		want   map[string]string // "" is chosen
	}{
		{"a lane", func(p *Policy) { p.AllowWarning = false }, Request{Tag: ParseTag("gray"), Caller: caller, Excluded: []string{"zone"}}, map[string]string{
			"b1": "baseline: lane gray serves this request", "bob": "lane dev-bob is not yours", "drain": "draining", "g1": "",
			"ill": "critical: connection refused", "lap": "quarantined: local without a lane", "prod": "other env: prod",
			"q": "quarantined: malformed lane", "self": "it is this proxy itself", "warn": "warning", "zero": "draining: weight 0",
			"zone": "refused a connection just now",
		}},
		{"the baseline", nil, Request{Caller: caller}, map[string]string{
			"b1": "", "bob": "lane dev-bob: the request belongs to the baseline", "g1": "lane gray: the request belongs to the baseline", "ill": "lane gray: the request belongs to the baseline",
		}},
		{"a fallback", nil, Request{Tag: ParseTag("dev-eve"), Caller: caller}, map[string]string{
			"b1": "", "bob": "lane dev-bob is not yours",
		}},
		{"a zone", nil, Request{Tag: ParseTag("gray"), Caller: Caller{Env: "test", Zone: "z2"}}, map[string]string{
			"zone": "", "g1": "zone none: the caller's zone z2 has instances",
		}},
		{"a version", nil, Request{Tag: ParseTag("gray"), Version: "v1", Caller: Caller{Env: "test", InstanceID: "g1"}}, map[string]string{
			"g1": "it is the caller itself", "zone": "", "warn": "",
		}},
		{"a circle", nil, Request{Tag: ParseTag("gray"), Hops: 99, Caller: caller}, map[string]string{
			"g1": "not looked at: the request has passed too many proxies: it runs in a circle", "prod": "other env: prod",
		}},
		{"an external host", nil, Request{External: true}, map[string]string{
			"b1": "not looked at: the host is no service: passed through without a tag",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.req.Service = "orders"
			e := mustRouter(t, tc.policy).Explain(c, tc.req)
			if len(e.Instances) != len(instances) {
				t.Fatalf("%d of %d explained", len(e.Instances), len(instances))
			}
			for _, v := range e.Instances {
				want, asked := tc.want[v.Instance.ID]
				if asked && (v.Why != want || v.Chosen != (want == "")) {
					t.Errorf("%s: chosen %v, %q, want %q", v.Instance.ID, v.Chosen, v.Why, want)
				}
			}
		})
	}
}
