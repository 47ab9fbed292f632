package cmd

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"lane/pkg/consul"
	"lane/pkg/guardian"

	"github.com/spf13/cobra"
)

// guardianLimit is how long a guardian tries: until Consul itself has removed
// what is left.
const guardianLimit = 2 * time.Minute

// newGuardianCmd is the process that `lane up` starts for itself.
func newGuardianCmd(f *factory) *cobra.Command {
	return &cobra.Command{
		Use:    "guardian",
		Short:  "Clean up after a session that is killed (started by lane up)",
		Hidden: true,
		Args:   takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			// Signals are for the session: its guardian ends with the pipe.
			return guardian.Watch(context.WithoutCancel(c.Context()), f.io.In, guardianLimit, f.cleanUp)
		},
	}
}

func (f *factory) cleanUp(ctx context.Context, w guardian.Ward) error {
	client, err := consul.Open(consul.Config{Address: w.Address, Datacenter: w.Datacenter, Namespace: w.Namespace,
		CAFile: w.CAFile, Token: w.Token, TokenFile: w.TokenFile, Getenv: f.getenv})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.RemoveLeftover(ctx, w.Session, w.Claims); err != nil || w.SessionName == "" {
		return err
	}
	return client.RemoveSessions(ctx, w.SessionName)
}

// guardian starts this program as a session's guardian.
func (f *factory) guardian() (*guardian.Guardian, error) {
	exe, err := f.executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(exe, "guardian")
	cmd.Env = f.environ
	return guardian.Start(cmd)
}
