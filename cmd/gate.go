package cmd

import (
	"errors"
	"fmt"

	"lane/pkg/child"

	"github.com/spf13/cobra"
)

// gateName is the command that a session's own command begins as.
const gateName = "gate"

// newGateCmd is the process that becomes a session's command as soon as its guardian
// knows of it.
func newGateCmd(*factory) *cobra.Command {
	return &cobra.Command{
		Use:                gateName,
		Short:              "Become a session's command (started by lane up)",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "--help" { // no command has that name
				return c.Help()
			}
			err := child.Pass(args)
			if errors.Is(err, child.ErrTold) {
				return &exitError{code: 126}
			}
			return err
		},
	}
}

// gate is how this program is started as a gate.
func (f *factory) gate() ([]string, error) {
	exe, err := f.executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return []string{exe, gateName}, nil
}
