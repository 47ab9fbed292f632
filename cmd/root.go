package cmd

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// maker makes one command.
type maker struct {
	name string
	make func(*factory) *cobra.Command
}

// shelf is commands that stand together in the help.
type shelf struct {
	id, title string
	makers    []maker
}

// shelves are all commands in the order of the help.
func shelves() []shelf {
	return []shelf{
		{"session", "Your lane:", []maker{{"up", newUpCmd}, {"down", newDownCmd}, {"status", newStatusCmd}, {"tail", newTailCmd}, {"expose", newExposeCmd}}},
		{"request", "Requests in your lane:", []maker{{"curl", newCurlCmd}, {"run", newRunCmd}, {"env", newEnvCmd}}},
		{"why", "What goes where, and why:", []maker{{"explain", newExplainCmd}, {"verify", newVerifyCmd}, {"check", newCheckCmd}, {"ls", newLsCmd}, {"show", newShowCmd}, {"top", newTopCmd}}},
		{"shared", "In the shared environment:", []maker{{"gateway", newGatewayCmd}, {"sidecar", newSidecarCmd}, {"relay", newRelayCmd}, {"rules", newRulesCmd},
			{"kill", newKillCmd}, {"unkill", newUnkillCmd}, {"switch", newSwitchCmd}, {"policy", newPolicyCmd}}},
		{"more", "Setting up:", []maker{{"demo", newDemoCmd}, {"init", newInitCmd}, {"config", newConfigCmd}, {"doctor", newDoctorCmd}, {"gc", newGCCmd}, {"ca", newCACmd},
			{"registry", newRegistryCmd}, {"version", newVersionCmd}}},
	}
}

// newRootCmd makes the program's command with all others below it, or with the one
// of a name: to make all of them is most of what a short command does.
func newRootCmd(f *factory, name string) *cobra.Command {
	groups, guardian, gate, bypass := shelves(), maker{"guardian", newGuardianCmd}, maker{gateName, newGateCmd}, maker{bypassName, newBypassCmd}
	only := name == guardian.name || name == gate.name || name == bypass.name || slices.ContainsFunc(groups, func(g shelf) bool {
		return slices.ContainsFunc(g.makers, func(m maker) bool { return m.name == name })
	})
	root := &cobra.Command{
		Use:   "lane",
		Short: "Run one service on your laptop, inside the shared test environment",
		Long: `lane lets you run one service of a system on your laptop, inside the shared
test environment, without anybody else noticing. Your process joins the shared
Consul registry under a lane of your own; only requests that carry that lane's
tag reach it; every service that the lane lacks is served by the baseline; and
every such fallback is shown, with its reason.`,
		Example: strings.TrimLeft(`
  lane demo                                        see it work, with nothing installed
  lane up dev-alice -s order-service=8080          put a local process into lane dev-alice
  lane curl http://order-service/api/orders/42     a tagged request
  lane status                                      what was routed where, and why
  lane down dev-alice                              leave nothing behind`, "\n"),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommands,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	// The root runs only to show its help: that is no usage of its own. (A usage
	// template would link text/template, and with it 3 MB of methods.)
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		if c == root {
			run := root.RunE
			root.RunE = nil
			defer func() { root.RunE = run }()
		}
		return usage(c)
	})
	root.SetIn(f.io.In)
	root.SetOut(f.io.Out)
	root.SetErr(f.io.Err)
	if !only { // else nobody asks it
		root.Version = readVersion(f.build).Version
	}
	root.SetFlagErrorFunc(badFlag)
	add := func(m maker, group string) {
		if only && m.name != name {
			return
		}
		c := m.make(f)
		if c.GroupID = group; group != "" {
			wrapArgs(c)
		}
		root.AddCommand(c)
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, m := range g.makers {
			add(m, g.id)
		}
	}
	add(guardian, "")
	add(gate, "")
	add(bypass, "")
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	if !only {
		strictHelp(root)
	}
	return root
}

// strictHelp makes a usage error of a command that is not there also in the commands
// that the library adds, which show their help for anything.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil {
					return err
				}
				return subcommands(found, rest)
			}
		case "completion":
			c.Args = subcommands
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			for _, shell := range c.Commands() {
				shell.Args = takes()
			}
		}
	}
}

// wrapArgs makes wrong arguments of a command, and of those below it, a usage error.
func wrapArgs(c *cobra.Command) {
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		var own *usageError
		if err == nil || errors.As(err, &own) {
			return err
		}
		return usagef("usage: "+c.UseLine(), "%v", err)
	}
}

func jsonFlag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "json", false, "print JSON, with a named schema")
}
