package cmd

import (
	"errors"
	"fmt"

	"lane/pkg/config"
	"lane/pkg/printer"

	"github.com/spf13/cobra"
)

type configOptions struct {
	json bool
}

func newConfigCmd(f *factory) *cobra.Command {
	o := &configOptions{}
	c := &cobra.Command{
		Use:   "config",
		Short: "Show every setting that is in effect, and where it comes from",
		Long: `Show every setting that is in effect, and where it comes from: flags come first,
then LANE_* and Consul's own variables, ./lane.yaml (looked for upward to the git
root), the user's own lane.yaml, defaults. With a mistake in them nothing is in
effect: what could be read is shown all the same, ? for what could not, and then
every mistake.`,
		Args: takes(),
		RunE: func(*cobra.Command, []string) error { return runConfig(f, o) },
	}
	jsonFlag(c, &o.json)
	return c
}

func runConfig(f *factory, o *configOptions) error {
	s, err := f.settings(given{})
	var invalid *config.Invalid
	if err != nil && !errors.As(err, &invalid) {
		return err
	}
	var out printer.Settings
	var files []string
	if invalid != nil {
		// What could be read helps to find what is wrong; the mistakes come behind it.
		out, files = printer.NewSettings(invalid.Entries), invalid.Files
		for _, p := range invalid.Problems {
			out.Problems = append(out.Problems, printer.Problem{Source: p.Source, Key: p.Key, Why: p.Why})
		}
	} else {
		out, files = printer.NewSettings(s.Entries()), s.Files()
		out.Warnings = s.Warnings()
	}
	if o.json {
		return errors.Join(f.printJSON(out), err)
	}
	for _, file := range files {
		if _, err := fmt.Fprintf(f.io.Err, "read %s\n", file); err != nil {
			return err
		}
	}
	if err := printer.PrintSettings(f.io, out); err != nil {
		return err
	}
	if s != nil {
		return f.warnSettings(s)
	}
	return err
}
