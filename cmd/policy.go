package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/printer"

	"github.com/spf13/cobra"
)

// policyResult is the JSON form of `lane policy`.
type policyResult struct {
	Schema   string          `json:"schema"`
	Policies []servicePolicy `json:"policies"`
}

type servicePolicy struct {
	Service string `json:"service"`
	consul.ServicePolicy
}

func newPolicyResult(all ...consul.ServicePolicy) policyResult {
	res := policyResult{Schema: "lane.policy/v1", Policies: []servicePolicy{}}
	for _, p := range all {
		res.Policies = append(res.Policies, servicePolicy{p.Service, p})
	}
	return res
}

func newPolicyCmd(f *factory) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "policy",
		Short: "Show and set how each service's lanes are registered: shared or isolated",
		Long: `Show for which services the registry holds how lanes are to be registered. A session
with 'register: auto', the default, begins under the service's own name, and moves to
the isolated one when a caller on another machine calls it without its lane's tag:
somebody who does not look at lanes. It writes that down here, and the next session
begins isolated. An operator may set a policy; no session writes over it.

  shared     under the service's own name, where lane-aware callers look first
  isolated   under lane-<lane>-<service>, which only lane-aware callers find`,
		Example: `  lane policy
  lane policy set order-service isolated --note "DNS clients"
  lane policy clear order-service`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 2 && (args[1] == config.Shared || args[1] == config.Isolated) {
				return usagef("say it:  lane policy set "+shellQuote(args[0])+" "+args[1], "there is no command %q", "policy "+args[0])
			}
			return subcommands(c, args)
		},
		RunE: func(c *cobra.Command, _ []string) error { return runPolicy(c.Context(), f, asJSON) },
	}
	jsonFlag(c, &asJSON)
	for _, sub := range []*cobra.Command{newPolicySetCmd(f), newPolicyClearCmd(f)} {
		c.AddCommand(sub)
	}
	return c
}

func runPolicy(ctx context.Context, f *factory, asJSON bool) error {
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	all, bad, err := client.ServicePolicies(ctx)
	if err != nil {
		return err
	}
	switch {
	case asJSON:
		err = f.printJSON(newPolicyResult(all...))
	case len(all) == 0 && len(bad) == 0:
		_, err = fmt.Fprintln(f.io.Err, "no policies: every service's lanes begin under its own name")
	case len(all) > 0:
		err = printPolicies(f, all)
	}
	return errors.Join(append(bad, err)...)
}

func printPolicies(f *factory, all []consul.ServicePolicy) error {
	t := printer.NewTable(f.io, "SERVICE", "MODE", "CALLER", "BY", "SINCE (THEIR CLOCK)", "NOTE")
	for _, p := range all {
		t.Row(printer.Text(p.Service), printer.Text(p.Mode), printer.Text(p.Caller), printer.Text(p.By), printer.Text(p.Since), printer.Text(p.Note))
	}
	return t.Flush()
}

func newPolicySetCmd(f *factory) *cobra.Command {
	var note string
	var asJSON bool
	c := &cobra.Command{
		Use:     "set SERVICE " + config.Shared + "|" + config.Isolated,
		Short:   "Set how a service's lanes are registered; no session writes over it",
		Example: `  lane policy set order-service isolated --note "DNS clients"`,
		Args:    takes("SERVICE", config.Shared+"|"+config.Isolated),
		RunE: func(c *cobra.Command, args []string) error {
			if args[1] != config.Shared && args[1] != config.Isolated {
				return usagef("it is "+config.Shared+" or "+config.Isolated, "%q is no mode", args[1])
			}
			s, err := f.settings(given{})
			if err != nil {
				return err
			}
			p := consul.ServicePolicy{Service: args[0], Mode: args[1], By: s.Owner, Since: f.now().Format(time.RFC3339), Note: note}
			said := "lanes of " + p.Service + " are registered " + p.Mode + ", from their next start on"
			return f.changePolicy(asJSON, p, func(client *consul.Client) error { return client.SetPolicy(c.Context(), p) }, &said)
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return f.serviceNames(c.Context()), cobra.ShellCompDirectiveNoFileComp
			case 1:
				return []string{config.Shared, config.Isolated}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	addFlag(c, &note, "note", "", anyText("TEXT"), "why, for those who read it")
	jsonFlag(c, &asJSON)
	return c
}

func newPolicyClearCmd(f *factory) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "clear SERVICE",
		Short:   "Remove a service's policy: its lanes begin under its own name again",
		Example: `  lane policy clear order-service`,
		Args:    takes("SERVICE"),
		RunE: func(c *cobra.Command, args []string) error {
			said := "lanes of " + args[0] + " begin under its own name, from their next start on"
			return f.changePolicy(asJSON, consul.ServicePolicy{}, func(client *consul.Client) error {
				all, _, err := client.ServicePolicies(c.Context())
				if err == nil && !slices.ContainsFunc(all, func(p consul.ServicePolicy) bool { return p.Service == args[0] }) {
					said += " (no change)"
				}
				return client.ClearPolicy(c.Context(), args[0])
			}, &said)
		},
		ValidArgsFunction: f.completePolicies,
	}
	jsonFlag(c, &asJSON)
	return c
}

// changePolicy makes a change and says what it means; p is what stands then.
func (f *factory) changePolicy(asJSON bool, p consul.ServicePolicy, change func(*consul.Client) error, said *string) error {
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := change(client); err != nil {
		return err
	}
	switch {
	case asJSON && p.Service == "":
		return f.printJSON(newPolicyResult())
	case asJSON:
		return f.printJSON(newPolicyResult(p))
	}
	_, err = fmt.Fprintln(f.io.Out, *said)
	return err
}

// completePolicies completes the services that have a policy.
func (f *factory) completePolicies(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return f.completeFirst(c, args, func(ctx context.Context, client *consul.Client) (out []string, err error) {
		all, _, err := client.ServicePolicies(ctx)
		for _, p := range all {
			out = append(out, p.Service)
		}
		return out, err
	})
}
