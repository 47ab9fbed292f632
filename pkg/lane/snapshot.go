package lane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Snapshot is one decision's whole input as JSON holds it; docs/routing.md,
// Snapshots, lists the fields.
type Snapshot struct {
	ID      string // empty for a file that holds one input and no ID
	Request Request
	Catalog *Catalog
	Policy  Policy
}

// Result is a snapshot's decision in the form in which it is compared and
// printed, one JSON object.
type Result struct {
	ID            string             `json:"id"`
	Kind          Kind               `json:"kind"`
	Reason        Reason             `json:"reason"`
	Code          *Code              `json:"code"`
	HTTP          *int               `json:"http"`
	EffectiveLane *Name              `json:"effective_lane"`
	Chosen        []string           `json:"chosen"`  // sorted
	Weights       map[string]float64 `json:"weights"` // 4 decimals
	Metrics       []string           `json:"metrics"` // sorted
	Warnings      []string           `json:"warnings"`
}

// SnapshotError says which field of which case is wrong.
type SnapshotError struct {
	Case  string // the case's id; empty where there is none
	Field string // as in "cfg.no_match"; empty for the whole
	Why   string
}

func (e *SnapshotError) Error() string {
	msg := e.Why
	if e.Field != "" {
		msg = e.Field + ": " + msg
	}
	if e.Case != "" {
		msg = "case " + e.Case + ": " + msg
	}
	return msg
}

// ParseSnapshots reads one input object, one object with id and input, or an
// array of the latter. Its errors are *SnapshotError, or the reader's.
func ParseSnapshots(r io.Reader) ([]Snapshot, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if !json.Valid(data) {
		var whole json.RawMessage
		err := json.Unmarshal(data, &whole) // names the place, as Valid does not
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, &SnapshotError{Why: fmt.Sprintf("no JSON: %v at byte %d", err, syntax.Offset)}
		}
		return nil, &SnapshotError{Why: fmt.Sprintf("no JSON: %v", err)}
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil || list == nil {
		s, err := parseCase(data, "", false)
		if err != nil {
			return nil, err
		}
		return []Snapshot{s}, nil
	}
	out := make([]Snapshot, 0, len(list))
	for i, raw := range list {
		s, err := parseCase(raw, fmt.Sprintf("[%d]", i), true)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// parseCase reads an input, or an object that wraps one with its ID; in a list
// it has to be wrapped.
func parseCase(raw []byte, at string, wrapped bool) (Snapshot, error) {
	o := newObject(raw, at, "")
	input, has := o.fields["input"]
	if !has && !wrapped {
		return parseInput(raw, "")
	}
	if o.err != nil {
		return Snapshot{}, o.err
	}
	id := o.text("id", "")
	if o.err != nil {
		return Snapshot{}, o.err
	}
	if id == "" && wrapped {
		return Snapshot{}, o.wrong("id", "missing")
	}
	if !has {
		return Snapshot{}, &SnapshotError{Case: id, Field: "input", Why: "missing"}
	}
	for k := range o.fields {
		if slices.Contains(inputFields, k) {
			return Snapshot{}, &SnapshotError{Case: id, Field: k, Why: "belongs inside input"}
		}
	}
	return parseInput(input, id)
}

var inputFields = []string{"tag", "trace_lane", "trace_id", "sticky_key", "version", "hops", "host_class",
	"self_endpoint", "caller", "declared", "instances", "registry", "counters", "cfg"}

// snapshotService names the service of a snapshot, which has only one.
const snapshotService = "service"

func parseInput(raw []byte, id string) (Snapshot, error) {
	o := newObject(raw, id, "")
	now := time.Unix(1<<40, 0) // any time will do: ages and uptimes are relative
	req := Request{Service: snapshotService, Now: now,
		Tag:       ParseTag(o.text("tag", "")),
		TraceLane: Name(o.text("trace_lane", "")),
		TraceID:   o.text("trace_id", ""), StickyKey: o.text("sticky_key", ""), Version: o.text("version", ""),
		Hops:     o.whole("hops", 0, 0),
		External: o.choice("host_class", "mesh", "mesh", "external") == "external",
	}
	caller := o.object("caller")
	req.Caller = Caller{Env: caller.text("env", ""), Tenant: caller.text("tenant", ""), Zone: caller.text("zone", ""),
		InstanceID: caller.text("instance_id", ""), Self: o.text("self_endpoint", "")}
	o.join(caller)
	counters := o.object("counters")
	req.Cross, req.Total = counters.whole("cross", 0, 0), counters.whole("total", 0, 0)
	o.join(counters)

	reg := o.object("registry")
	trust := Trust{State: map[string]RegistryState{"fresh": Fresh, "stale": Stale, "unreachable": Unreachable}[reg.choice("state", "fresh", "fresh", "stale", "unreachable")],
		Since: now.Add(-reg.seconds("age_s", 0))}
	has, cut := reg.flag("has_snapshot", true), reg.flag("acl_filtered", false)
	o.join(reg)

	cfg := o.object("cfg")
	policy, sw, keys := parseConfig(cfg)
	o.join(cfg)

	instances := parseInstances(o, now)
	s := NewService(snapshotService, instances, names(o.texts("declared")), WithMetaKeys(keys...))
	s.HasSnapshot, s.ACLFiltered = has, cut
	if err := o.end(); err != nil {
		return Snapshot{}, err
	}
	return Snapshot{ID: id, Request: req, Policy: policy, Catalog: NewCatalog(trust, nil, sw, s)}, nil
}

func names(list []string) []Name {
	if list == nil {
		return nil
	}
	out := make([]Name, len(list))
	for i, s := range list {
		out[i] = Name(s)
	}
	return out
}

func parseInstances(o *object, now time.Time) []Instance {
	raws := o.list("instances")
	if raws == nil {
		o.fail("instances", "missing")
	}
	out := make([]Instance, len(raws))
	for i, raw := range raws {
		n := newObject(raw, o.id, fmt.Sprintf("instances[%d].", i))
		in := Instance{ID: n.text("id", ""), Addr: n.text("addr", ""), MetaLane: n.text("lane", ""), MetaTag: n.text("tag", ""),
			Env: n.text("env", ""), Tenant: n.text("tenant", ""), Zone: n.text("zone", ""),
			Version: n.text("version", ""), Group: n.text("group", ""),
			Health: map[string]Health{"passing": Passing, "warning": Warning, "critical": Critical, "maintenance": Critical}[n.choice("health", "passing", "passing", "warning", "critical", "maintenance")],
			Weight: n.whole("weight", 1, math.MinInt32), Draining: n.flag("draining", false), Local: n.flag("local", false)}
		if in.ID == "" {
			n.fail("id", "missing")
		}
		if n.given("uptime_s") {
			in.FirstSeen = now.Add(-n.seconds("uptime_s", math.Inf(-1)))
		}
		o.join(n)
		out[i] = in
	}
	return out
}

// parseConfig reads cfg: the policy, the environment's switches, the metadata
// keys.
func parseConfig(c *object) (Policy, Switches, []string) {
	p := DefaultPolicy()
	p.Mode = Mode(c.text("mode", string(p.Mode)))
	p.NoMatch = NoMatch(c.text("no_match", string(p.NoMatch)))
	p.DegradeRatio = c.number("degrade_ratio", 0)
	p.InvalidTag = InvalidTag(c.text("invalid_tag", string(p.InvalidTag)))
	p.UnhealthyLane = UnhealthyLane(c.text("unhealthy_lane", string(p.UnhealthyLane)))
	p.KnownLanes = names(c.texts("known_lanes"))
	p.AllowWarning = c.flag("allow_warning", true)
	p.EnvRequired = c.flag("env_required", true)
	p.Zone = ZoneMode(c.text("zone_mode", string(p.Zone)))
	p.MaxCross = c.number("max_cross", p.MaxCross)
	p.OnEmpty = OnEmpty(c.text("on_empty", string(p.OnEmpty)))
	p.MinLocal = c.whole("min_local", p.MinLocal, 0)
	p.Warmup = c.seconds("warmup_s", 0)
	p.Curve = Curve(c.text("warmup_curve", string(p.Curve)))
	if c.given("max_stale_s") {
		p.MaxStale = c.seconds("max_stale_s", 0)
	}
	p.MaxHops = c.whole("max_hops", p.MaxHops, 1)
	p.StampedEntry = c.flag("stamped_entry", false)
	if addrs := c.texts("baseline_static"); len(addrs) > 0 {
		p.BaselineStatic = map[string][]string{snapshotService: addrs}
	}
	sw := Switches{KillAll: c.flag("kill_switch", false), KilledLanes: names(c.texts("killed_lanes"))}
	if g := c.text("active_group", ""); g != "" {
		sw.ActiveGroup = map[string]string{snapshotService: g}
	}
	keys := c.texts("meta_keys")
	if keys == nil {
		keys = []string{"lane", "tag"}
	}
	for _, k := range keys {
		if k != "lane" && k != "tag" {
			c.fail("meta_keys", fmt.Sprintf("%q: must be lane or tag", k))
		}
	}
	var bad *PolicyError
	if err := p.Validate(); errors.As(err, &bad) {
		c.fail(bad.Field, bad.Value+": "+bad.Why)
	}
	return p, sw, keys
}

// Decide decides the snapshot.
func (s Snapshot) Decide() Result {
	r, err := NewRouter(s.Policy)
	if err != nil { // ParseSnapshots lets none through
		code := Code("E_POLICY_INVALID")
		return Result{ID: s.ID, Kind: KindError, Reason: Reason(err.Error()), Code: &code}
	}
	d := r.Decide(s.Catalog, s.Request)
	return d.Result(s.ID)
}

// Result is the decision in its comparable form, under an ID of the caller's.
func (d *Decision) Result(id string) Result {
	out := Result{ID: id, Kind: d.Kind, Reason: d.Reason,
		Chosen: []string{}, Weights: map[string]float64{}, Metrics: []string{}, Warnings: []string{}}
	if d.Code != "" {
		code, http := d.Code, d.Code.HTTP()
		out.Code, out.HTTP = &code, &http
	}
	if d.Lane != "" {
		lane := d.Lane
		out.EffectiveLane = &lane
	}
	for _, c := range d.Chosen {
		out.Chosen = append(out.Chosen, c.Instance.ID)
		if d.Kind != KindStatic { // addresses, which nobody has weighed
			out.Weights[c.Instance.ID] += c.Weight
		}
	}
	for id, w := range out.Weights {
		out.Weights[id] = math.Round(w*1e4) / 1e4
	}
	for _, m := range d.Metrics {
		out.Metrics = append(out.Metrics, m.String())
	}
	out.Warnings = append(out.Warnings, d.Warnings...)
	slices.Sort(out.Chosen)
	slices.Sort(out.Metrics)
	slices.Sort(out.Warnings)
	return out
}
