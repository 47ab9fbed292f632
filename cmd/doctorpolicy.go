package cmd

import (
	"fmt"
	"strings"

	"lane/pkg/config"
	"lane/pkg/consul"
)

// Whom a policy is for.
const (
	policyDirect  = "direct"
	policyRelay   = "relay"
	policyRelayed = "relayed"
	policyGateway = "gateway"
	policySidecar = "sidecar"
)

func policyKinds() []string {
	return []string{policyDirect, policyRelayed, policyRelay, policyGateway, policySidecar}
}

// printLeastPolicy prints the least policy for the registry's access control. It asks no
// registry.
func printLeastPolicy(f *factory, o *doctorOptions) error {
	s, err := f.settings(given{lane: o.lane}) // a policy needs no ports
	if err != nil {
		return err
	}
	p, err := o.leastPolicy(s)
	if err != nil {
		return err
	}
	if o.json {
		return f.printJSON(policyList{Schema: "lane.policies/v1", Policies: []policyRecord{{p.Name, p.For, p.Rules}}})
	}
	_, err = fmt.Fprintf(f.io.Out, "# %s: %s\n%s", p.Name, p.For, p.Rules)
	return err
}

func (o *doctorOptions) leastPolicy(s *config.Settings) (consul.Policy, error) {
	services, err := o.serviceNames(s)
	if err != nil {
		return consul.Policy{}, err
	}
	switch o.policy {
	case policyDirect:
		rights, err := o.directRights(s, services)
		if len(services) == 0 {
			return policyOf("lane-colors", "a session that only colors calls; -s SERVICE adds what registers one", rights), err
		}
		return policyOf("lane-"+s.Lane, fmt.Sprintf("a session of lane %s that registers %s itself (register: %s)",
			s.Lane, strings.Join(services, ", "), o.modeOf(s)), rights), err
	case policyRelayed:
		return policyOf("lane-relayed", "a session whose services a relay registers: it reads, and writes nothing", consul.Reads()), nil
	case policyRelay:
		return policyOf("lane-relay", "a relay, which claims and registers any service in any lane", consul.RelayRights()), nil
	case policyGateway:
		return policyOf(consul.GatewayService, "a gateway", consul.RouterRights(consul.GatewayService, nil)), nil
	case policySidecar:
		return policyOf(consul.SidecarService, "a sidecar; with --register also -s SERVICE", consul.RouterRights(consul.SidecarService, services)), nil
	}
	return consul.Policy{}, usagef("there are: "+strings.Join(policyKinds(), ", "), "there is no policy for %q", o.policy)
}

// serviceNames are the services of -s, else those of lane.yaml.
func (o *doctorOptions) serviceNames(s *config.Settings) (names []string, err error) {
	for _, arg := range o.services {
		name, _, _ := strings.Cut(arg, "=")
		names = append(names, name)
	}
	if len(names) > 0 {
		return names, nil
	}
	for _, v := range s.Services {
		names = append(names, v.Name)
	}
	return names, nil
}

// modeOf is the mode of registration that was asked for, else that of the settings.
func (o *doctorOptions) modeOf(s *config.Settings) string {
	if o.mode != "" {
		return o.mode
	}
	return s.Register
}

// directRights are the rights that `lane up` needs with these settings.
func (o *doctorOptions) directRights(s *config.Settings, services []string) ([]consul.Right, error) {
	if len(services) == 0 {
		return consul.Reads(), nil
	}
	if s.Lane == "" {
		return nil, usagef("say which: --lane dev-alice", "a policy for services is one for a lane")
	}
	name, err := readLane(s.Lane)
	if err != nil {
		return nil, err
	}
	return consul.DirectRights(name, services, o.modeOf(s)), nil
}

func policyOf(name, whom string, rights []consul.Right) consul.Policy {
	p := consul.Policy{Name: name, For: whom}
	var b strings.Builder
	for _, r := range rights {
		fmt.Fprintf(&b, "# without it: %s\n%s\n", r.Why, r.Rule())
	}
	p.Rules = b.String()
	return p
}
