package session

import (
	"cmp"
	"fmt"

	"lane/pkg/lane"
)

// warnings are what a developer should know of the environment around the
// session's services: what makes colleagues' requests, or their own, fail.
func warnings(c *lane.Catalog, services []string) []string {
	var out []string
	if c.ClaimsDenied && c.Trust.State == lane.Fresh {
		out = append(out, "the token may not read the claims (key:read on lane/declared/): a service that your lane lacks is an error, not a fallback")
	}
	for _, name := range services {
		s := c.Service(name)
		switch {
		case s == nil || !s.HasSnapshot:
		case s.ACLFiltered:
			out = append(out, fmt.Sprintf("%s: the token sees only a part of its instances", name))
		case !hasBaseline(s):
			out = append(out, fmt.Sprintf("%s: no baseline is registered: untagged callers get %s", name, lane.CodeNoBaseline))
		}
	}
	return out
}

// hasBaseline says whether a service has an instance of no lane.
func hasBaseline(s *lane.Service) bool {
	for i := range s.Instances {
		in := &s.Instances[i]
		switch lane.ParseTag(cmp.Or(in.MetaLane, in.MetaTag)).Kind {
		case lane.TagNone, lane.TagBaseline:
			if !in.Local {
				return true
			}
		}
	}
	return false
}
