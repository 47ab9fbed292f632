package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lane/pkg/lane"
	"lane/pkg/nearest"
)

// warnings are what a developer should know of the environment around the
// session's services: what makes colleagues' requests, or their own, fail. meant are the
// names that some of the services are most likely slips of.
func warnings(c *lane.Catalog, services []string, meant map[string]string) []string {
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
			text := fmt.Sprintf("%s: no baseline is registered: untagged callers get %s", name, lane.CodeNoBaseline)
			if near := meant[name]; near != "" {
				text += "; did you mean " + near + "?"
			}
			out = append(out, text)
		}
	}
	return out
}

// meantBy is the name of all that a service is most likely a slip of, or "". A lane's own
// isolated name is none.
func meantBy(service string, all []string) string {
	return nearest.Word(service, slices.DeleteFunc(slices.Clone(all), func(n string) bool {
		return n == service || strings.HasPrefix(n, "lane-")
	}))
}

// learnMeant asks for which services a service without a baseline may have been meant. It
// is worth no long wait, and no error: it is asked once, at the start.
func (s *session) learnMeant(ctx context.Context) {
	var alone []*service
	for _, v := range s.services {
		if c := s.watcher.Catalog().Service(v.o.Name); c != nil && c.HasSnapshot && !hasBaseline(c) {
			alone = append(alone, v)
		}
	}
	if len(alone) == 0 || s.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all, err := s.client.Services(ctx)
	if err != nil {
		return
	}
	for _, v := range alone {
		v.mu.Lock()
		v.meant = meantBy(v.o.Name, all)
		v.mu.Unlock()
	}
}

// meant are the names that its services are most likely slips of.
func (s *session) meant() map[string]string {
	out := map[string]string{}
	for _, v := range s.services {
		v.mu.Lock()
		out[v.o.Name] = v.meant
		v.mu.Unlock()
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
