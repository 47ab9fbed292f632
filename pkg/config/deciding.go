package config

// deciding are the settings by which a proxy decides where a request goes: which tag it
// has, of which service it is, who calls, and the policy.
var deciding = []string{"preset", "header", "accept", "hosts", "colored", "mitm", "env", "tenant", "zone", "strict", "no_match", "degrade_ratio",
	"unhealthy_lane", "zone_mode", "min_local", "max_cross", "on_empty", "warmup", "warmup_curve", "sticky", "max_stale"}

// Deciding are the settings by which a proxy decides that are not the defaults, in the
// form of Options.Session.
func (s *Settings) Deciding() map[string]string {
	out := map[string]string{}
	for _, name := range deciding {
		if v := find(name).show(s); s.Source(name) != "default" && v != "" {
			out[name] = v
		}
	}
	return out
}

// session takes the settings of a running session.
func (l *loader) session() {
	if l.o.Session == nil {
		return
	}
	l.now, l.base = layerSession, l.o.Dir
	for _, name := range deciding { // in this order: which of two that exclude each other is told
		v, ok := l.o.Session[name]
		if !ok {
			continue
		}
		k, values := find(name), []string{v}
		if k.form == list || k.form == mapping {
			values = splitList(v)
		}
		l.apply(k, l.o.SessionName, values)
	}
}
