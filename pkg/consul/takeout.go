package consul

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// ElsewhereError says that an instance is registered with another agent than the
// one that answers, and that only that one can change it.
type ElsewhereError struct{ ID, Node, Address string }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%s is registered with the agent of node %s, and %s is another: only that one can change it",
		e.ID, orUnknown(e.Node), e.Address)
}

// MarkDraining has routers send no new requests to a lane's instance; its checks
// and all else of it stay. It is for whoever operates the environment: a session
// marks its own. marked says that this call has marked it, or may have, when it
// failed: one that drained already is not. The error is an *ElsewhereError when
// the agent does not know the instance.
func (c *Client) MarkDraining(ctx context.Context, in lane.Instance) (marked bool, err error) {
	return c.setDraining(ctx, in, true)
}

// UnmarkDraining takes MarkDraining back. An instance that is gone meanwhile
// stays so: that is no error.
func (c *Client) UnmarkDraining(ctx context.Context, in lane.Instance) error {
	_, err := c.setDraining(ctx, in, false)
	var elsewhere *ElsewhereError
	if errors.As(err, &elsewhere) {
		return nil
	}
	return err
}

func (c *Client) setDraining(ctx context.Context, in lane.Instance, draining bool) (changed bool, err error) {
	if _, _, ok := splitID(in.ID); !ok {
		return false, &ValidationError{Field: "ID", Value: in.ID, Why: "is not a lane's instance, so it is not touched"}
	}
	var svc *api.AgentService
	err = c.do(ctx, "read "+in.ID, fmt.Sprintf("service:read on %q", in.Registered), func(ctx context.Context) (err error) {
		svc, _, err = c.api.Agent().Service(in.ID, local(ctx))
		return err
	})
	switch {
	case statusOf(err) == http.StatusNotFound:
		return false, &ElsewhereError{ID: in.ID, Node: in.Node, Address: c.Address()}
	case err != nil:
		return false, err
	case (svc.Meta[MetaDraining] == "true") == draining:
		return false, nil
	}
	meta := maps.Clone(svc.Meta)
	if meta == nil {
		meta = map[string]string{}
	}
	what := "mark " + in.ID + " as draining"
	if draining {
		meta[MetaDraining] = "true"
	} else {
		delete(meta, MetaDraining)
		what = "take back that " + in.ID + " is draining"
	}
	r := &api.AgentServiceRegistration{ID: svc.ID, Name: svc.Service, Address: svc.Address, Port: svc.Port, Meta: meta,
		Weights: &svc.Weights}
	return true, c.commit(ctx, what, fmt.Sprintf("service:write on %q", svc.Service), func(ctx context.Context) error {
		// Its checks are left as they are: none are given, and none are replaced.
		return c.api.Agent().ServiceRegisterOpts(r, api.ServiceRegisterOpts{}.WithContext(ctx))
	})
}

// DropClaim takes a claim from whoever holds it: a session that still runs ends
// by that. It does nothing when another holds it by now.
func (c *Client) DropClaim(ctx context.Context, cl lane.Claim) error {
	key := claimKey(cl.Lane, cl.Service)
	c.inactive(ctx, cl.Lane, cl.Service, cl.Session)
	_, err := c.txnNeeding(ctx, "drop the claim on "+cl.Service, `key:write on the prefix "lane/declared/"`,
		&api.KVTxnOp{Verb: api.KVCheckSession, Key: key, Session: cl.Session},
		&api.KVTxnOp{Verb: api.KVDelete, Key: key})
	return err
}

// InstancesOf returns every instance under a name, the baseline's too. It reads
// the registry, not a watch: for commands.
func (c *Client) InstancesOf(ctx context.Context, name string) ([]lane.Instance, error) {
	if err := checkWatched(name); err != nil {
		return nil, err
	}
	var entries []*api.ServiceEntry
	err := c.do(ctx, "read "+name, needReads, func(ctx context.Context) (err error) {
		var meta *api.QueryMeta
		entries, meta, err = c.api.Health().Service(name, "", false, query(ctx))
		if err == nil && len(entries) == 0 && meta.ResultsFilteredByACLs {
			return &DeniedError{What: "read " + name, Need: needReads}
		}
		return err
	})
	return instances(name, entries), err
}
