package cmd

import (
	"fmt"

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
root), the user's own lane.yaml, defaults.`,
		Args: takes(),
		RunE: func(*cobra.Command, []string) error { return runConfig(f, o) },
	}
	jsonFlag(c, &o.json)
	return c
}

func runConfig(f *factory, o *configOptions) error {
	s, err := f.settings(given{})
	if err != nil {
		return err
	}
	if o.json {
		return f.printJSON(printer.NewSettings(s.Entries()))
	}
	for _, file := range s.Files() {
		if _, err := fmt.Fprintf(f.io.Err, "read %s\n", file); err != nil {
			return err
		}
	}
	return printer.PrintSettings(f.io, printer.NewSettings(s.Entries()))
}
