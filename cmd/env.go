package cmd

import (
	"context"
	"strings"

	"lane/pkg/childenv"

	"github.com/spf13/cobra"
)

type envOptions struct {
	lane   string
	syntax string
}

func newEnvCmd(f *factory) *cobra.Command {
	o := &envOptions{}
	c := &cobra.Command{
		Use:   "env",
		Short: "Print the environment that sends a program's calls through your lane",
		Long: `Print the variables that 'lane run' sets, in the syntax of a shell or a file:
` + strings.Join(childenv.Syntaxes(), ", ") + `.`,
		Example: `  eval "$(lane env)"
  lane env --syntax fish | source
  lane env --syntax dotenv > .env.lane`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return runEnv(c.Context(), f, o) },
	}
	addFlag(c, &o.lane, "lane", "", aLane, "the lane, if several sessions run")
	addFlag(c, &o.syntax, "syntax", "sh", one("SYNTAX", childenv.Syntaxes()...), strings.Join(childenv.Syntaxes(), ", "))
	_ = c.RegisterFlagCompletionFunc("lane", f.completeLanes)
	_ = c.RegisterFlagCompletionFunc("syntax", cobra.FixedCompletions(childenv.Syntaxes(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func runEnv(ctx context.Context, f *factory, o *envOptions) error {
	s, err := f.session(ctx, o.lane)
	if err != nil {
		return err
	}
	out, err := childenv.Render(o.syntax, childenv.Vars(f.environ, f.childSession(&s.Status)))
	if err != nil {
		return usagef("choose another one with --syntax: "+strings.Join(childenv.Syntaxes(), ", "), "%v", err)
	}
	_, err = f.io.Out.Write([]byte(out))
	return err
}
