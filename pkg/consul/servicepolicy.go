package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"
)

const policyPrefix = "lane/policy/" // <service>

// Modes of a lane's registration.
const (
	ModeShared   = "shared"   // under the service's own name
	ModeIsolated = "isolated" // under lane-<lane>-<service>
)

// ServicePolicy is how the instances of lanes are to be registered for one
// service: an operator's choice, or what a session has learned.
type ServicePolicy struct {
	Service string `json:"-"`
	Mode    string `json:"mode"`
	// Caller is who called a lane's instance without its tag, if that is why.
	Caller string `json:"caller,omitempty"`
	By     string `json:"by,omitempty"`    // who wrote it
	Since  string `json:"since,omitempty"` // the writer's own clock, as text: shown only
	Note   string `json:"note,omitempty"`
}

// PolicyError says that a key holds no policy.
type PolicyError struct{ Key, Service, Value string }

func (e *PolicyError) Error() string {
	return fmt.Sprintf("the key %s holds %q, which names no mode of registration: `lane policy set %s %s`, or %s, writes one, `lane policy clear %s` removes it",
		e.Key, e.Value, e.Service, ModeShared, ModeIsolated, e.Service)
}

const needPolicy = `key:%s on the prefix "lane/policy/"`

// ServicePolicy reads the policy of a service; ok is false when there is none.
// One that cannot be read as a policy is an error that names its key: routing an
// instance by a guess would be worse.
func (c *Client) ServicePolicy(ctx context.Context, service string) (p ServicePolicy, ok bool, err error) {
	if err := checkWatched(service); err != nil {
		return p, false, err
	}
	var pair *api.KVPair
	err = c.do(ctx, "read the policy of "+service, fmt.Sprintf(needPolicy, "read"), func(ctx context.Context) (err error) {
		pair, _, err = c.api.KV().Get(policyPrefix+service, query(ctx))
		return err
	})
	if err != nil || pair == nil {
		return p, false, err
	}
	p, err = decodePolicy(pair)
	return p, err == nil, err
}

// ServicePolicies reads all policies, sorted by service. Those that cannot be
// read as one are in the error, beside the others.
func (c *Client) ServicePolicies(ctx context.Context) ([]ServicePolicy, []error, error) {
	var pairs api.KVPairs
	err := c.do(ctx, "read the policies", fmt.Sprintf(needPolicy, "read"), func(ctx context.Context) (err error) {
		pairs, _, err = c.list(ctx, policyPrefix, query(ctx))
		return err
	})
	var out []ServicePolicy
	var bad []error
	for _, pair := range pairs {
		if p, err := decodePolicy(pair); err != nil {
			bad = append(bad, err)
		} else {
			out = append(out, p)
		}
	}
	return out, bad, err
}

func decodePolicy(pair *api.KVPair) (ServicePolicy, error) {
	var p ServicePolicy
	if err := json.Unmarshal(pair.Value, &p); err != nil {
		// What an operator types in a hurry: the mode alone.
		p.Mode = strings.TrimSpace(string(pair.Value))
	}
	p.Service = strings.TrimPrefix(pair.Key, policyPrefix)
	if p.Mode != ModeShared && p.Mode != ModeIsolated {
		return p, &PolicyError{Key: pair.Key, Service: p.Service, Value: abridge(p.Mode)}
	}
	return p, nil
}

func abridge(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// LearnPolicy writes a policy unless there is one: what an operator has set is
// never written over. written says whether it was.
func (c *Client) LearnPolicy(ctx context.Context, p ServicePolicy) (written bool, err error) {
	err = c.writePolicy(ctx, p, func(ctx context.Context, pair *api.KVPair) (err error) {
		written, _, err = c.api.KV().CAS(pair, write(ctx)) // index 0: only if it does not exist
		return err
	})
	return written, err
}

// SetPolicy writes a policy over whatever there is.
func (c *Client) SetPolicy(ctx context.Context, p ServicePolicy) error {
	return c.writePolicy(ctx, p, func(ctx context.Context, pair *api.KVPair) error {
		_, err := c.api.KV().Put(pair, write(ctx))
		return err
	})
}

func (c *Client) writePolicy(ctx context.Context, p ServicePolicy, put func(context.Context, *api.KVPair) error) error {
	if err := checkService("service", p.Service); err != nil {
		return err
	}
	if p.Mode != ModeShared && p.Mode != ModeIsolated {
		return &ValidationError{Field: "mode", Value: p.Mode, Why: "is no mode of registration", Fix: "use " + ModeShared + " or " + ModeIsolated}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.commit(ctx, "write the policy of "+p.Service, fmt.Sprintf(needPolicy, "write"), func(ctx context.Context) error {
		return put(ctx, &api.KVPair{Key: policyPrefix + p.Service, Value: data})
	})
}

// ClearPolicy removes the policy of a service; one that is not there is no error.
func (c *Client) ClearPolicy(ctx context.Context, service string) error {
	if err := checkWatched(service); err != nil {
		return err
	}
	return c.commit(ctx, "clear the policy of "+service, fmt.Sprintf(needPolicy, "write"), func(ctx context.Context) error {
		_, err := c.api.KV().Delete(policyPrefix+service, write(ctx))
		return err
	})
}
