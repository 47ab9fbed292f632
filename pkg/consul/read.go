package consul

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

const needReads = `service:read on every service (service_prefix "") and node:read on every node (node_prefix "")`

// EveryService is Services, or nil if the registry hides some from this token: then a
// name that is not among those it shows proves nothing.
func (c *Client) EveryService(ctx context.Context) ([]string, error) {
	names, hidden, err := c.namesAndHidden(ctx, "")
	if hidden {
		return nil, nil
	}
	return names, err
}

// serviceNames returns every service's name, sorted; filter is Consul's own
// language over the instances.
func (c *Client) serviceNames(ctx context.Context, filter string) ([]string, error) {
	names, hidden, err := c.namesAndHidden(ctx, filter)
	if err == nil && len(names) == 0 && hidden {
		return nil, &DeniedError{What: "list the services", Need: needReads}
	}
	return names, err
}

// namesAndHidden says too whether the registry hid a service from this token.
func (c *Client) namesAndHidden(ctx context.Context, filter string) (names []string, hidden bool, err error) {
	var services map[string][]string
	err = c.do(ctx, "list the services", needReads, func(ctx context.Context) (err error) {
		o := query(ctx)
		o.Filter = filter
		var meta *api.QueryMeta
		services, meta, err = c.api.Catalog().Services(o)
		hidden = err == nil && meta.ResultsFilteredByACLs
		return err
	})
	if err != nil {
		return nil, false, err
	}
	names = make([]string, 0, len(services))
	for name := range services {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, hidden, nil
}

// LaneInstances returns the instances of a lane, of all lanes for "", by the
// service that they serve; those under an isolated name are among them. It
// reads the registry, not a watch: for commands.
func (c *Client) LaneInstances(ctx context.Context, l lane.Name) (map[string][]lane.Instance, error) {
	names, inService := "lane in ServiceMeta", "lane in Service.Meta"
	if l != "" {
		if !isLabel(string(l)) {
			return nil, &ValidationError{Field: "lane", Value: string(l), Why: "is no lane's name"}
		}
		names += fmt.Sprintf(" and ServiceMeta.lane == %q", l)
		inService += fmt.Sprintf(" and Service.Meta.lane == %q", l)
	}
	services, err := c.serviceNames(ctx, names)
	if err != nil {
		return nil, err
	}
	answers := make([][]*api.ServiceEntry, len(services))
	errs := make([]error, len(services))
	slots := make(chan struct{}, 8)
	var reads sync.WaitGroup
	for i, name := range services {
		slots <- struct{}{}
		reads.Go(func() {
			defer func() { <-slots }()
			errs[i] = c.do(ctx, "read "+name, needReads, func(ctx context.Context) (err error) {
				o := query(ctx)
				o.Filter = inService
				answers[i], _, err = c.api.Health().Service(name, "", false, o)
				return err
			})
		})
	}
	reads.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	out := map[string][]lane.Instance{}
	for i, name := range services {
		for _, in := range instances(name, answers[i]) {
			service := name
			if _, s, ok := splitID(in.ID); ok && name == IsolatedName(lane.Name(in.MetaLane), s) {
				service = s
			}
			out[service] = append(out[service], in)
		}
	}
	return out, nil
}

// Services returns the names of all services of the registry, sorted.
func (c *Client) Services(ctx context.Context) ([]string, error) { return c.serviceNames(ctx, "") }
