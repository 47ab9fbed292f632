package cmd

import (
	"fmt"
	"slices"
	"strings"

	"lane/pkg/consul"

	"github.com/spf13/cobra"
)

// policyList is the JSON form of `lane rules policies`.
type policyList struct {
	Schema   string         `json:"schema"`
	Policies []policyRecord `json:"policies"`
}

type policyRecord struct {
	Name  string `json:"name"`
	For   string `json:"for"`
	Rules string `json:"rules"`
}

func newRulesPoliciesCmd(f *factory) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "policies [NAME]",
		Short: "Print the policies by which Consul's access control takes two people to change the rules",
		Long: `Print policies for Consul's access control, with which a token may read the rules, propose
them, make them active, or use the switches. With a NAME, that one alone, as
'consul acl policy create' reads it. It asks no registry.`,
		Example: `  lane rules policies
  lane rules policies lane-rules-propose | consul acl policy create -name lane-rules-propose -rules -`,
		Args: takes("[NAME]"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return runRulesPolicies(f, name, asJSON)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return policyNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func policyNames() []string {
	var out []string
	for _, p := range consul.Policies() {
		out = append(out, p.Name)
	}
	return out
}

func runRulesPolicies(f *factory, name string, asJSON bool) error {
	if name != "" && !slices.Contains(policyNames(), name) {
		return usagef("there are: "+strings.Join(policyNames(), ", "), "there is no policy %q", name)
	}
	res := policyList{Schema: "lane.policies/v1", Policies: []policyRecord{}}
	var text []string
	for _, p := range consul.Policies() {
		if name != "" && p.Name != name {
			continue
		}
		res.Policies = append(res.Policies, policyRecord{p.Name, p.For, p.Rules})
		text = append(text, fmt.Sprintf("# %s: %s\n%s", p.Name, p.For, p.Rules))
	}
	if asJSON {
		return f.printJSON(res)
	}
	_, err := fmt.Fprint(f.io.Out, strings.Join(text, "\n"))
	return err
}
