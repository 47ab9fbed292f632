package cmd

import (
	"context"

	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/lane"

	"github.com/spf13/cobra"
)

// placeSettings are the settings that say where a gateway or a sidecar belongs.
var placeSettings = []setting{
	{"env", "env", "ENV", "environment of the calls that it makes, a hard constraint"},
	{"tenant", "tenant", "TENANT", "tenant of the calls that it makes, a hard constraint"},
	{"zone", "zone", "ZONE", "zone of the calls that it makes"},
	{"preset", "preset", "NAME", "header convention of another lane system, e.g. mse, asm, bridge"},
	{"max-stale", "max_stale", "DURATION", "how old the registry's answer may be to prove that a lane is absent"},
}

// place is where a gateway or a sidecar stands: its settings, and its registry.
type place struct {
	s        *config.Settings
	carriers lane.Carriers
	client   *consul.Client // closed by whoever has asked
}

// placeFlags adds the settings of a place, and more, to a command.
func placeFlags(c *cobra.Command, more ...setting) func() []config.Flag {
	return settingFlags(c, append(more, placeSettings...))
}

// place reads the settings and finds the registry.
func (f *factory) place(ctx context.Context, flags []config.Flag) (*place, error) {
	s, err := f.settings(given{flags: flags})
	if err != nil {
		return nil, err
	}
	if err := f.warnSettings(s); err != nil {
		return nil, err
	}
	carriers, err := s.Carriers()
	if err != nil {
		return nil, err
	}
	client, err := consul.Open(f.consulConfig(s))
	if err != nil {
		return nil, err
	}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return &place{s, carriers, client}, nil
}

func (p *place) caller() lane.Caller {
	return lane.Caller{Env: p.s.Env, Tenant: p.s.Tenant, Zone: p.s.Zone}
}

// policy is that of a router between others: a malformed tag has been dealt with
// at the entry.
func (p *place) policy() lane.Policy {
	policy := p.s.Policy()
	policy.InvalidTag = lane.InvalidDrop
	return policy
}
