package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"runtime"
	"time"

	"lane/pkg/childenv"
	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/guardian"
	"lane/pkg/proxy"
	"lane/pkg/session"

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
			yielded, told := false, false
			clean := func(ctx context.Context, w guardian.Ward) error {
				if w.Log != "" && !told {
					told = leaveDeath(w.Log, f.now()) == nil
				}
				err := f.cleanUp(ctx, w)
				if yielded || w.Relay == nil {
					return err
				}
				far := f.yield(ctx, w.Relay)
				yielded = far == nil // the relay does one thing after the other: once is enough
				return errors.Join(err, far)
			}
			return guardian.Watch(context.WithoutCancel(c.Context()), f.io.In, guardianLimit, clean)
		},
	}
}

func (f *factory) cleanUp(ctx context.Context, w guardian.Ward) error {
	if w.Socket != "" { // the registry may be away: that is no reason to leave it
		if err := control.RemoveDead(ctx, w.Socket); err != nil {
			return fmt.Errorf("remove the session's socket: %w", err)
		}
	}
	client, err := consul.Open(consul.Config{Address: w.Address, Datacenter: w.Datacenter, Namespace: w.Namespace,
		CAFile: w.CAFile, Token: w.Token, TokenFile: w.TokenFile, Getenv: f.getenv})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.RemoveLeftover(ctx, w.Session, w.Mark, w.Claims); err != nil || w.SessionName == "" {
		return err
	}
	return client.RemoveSessions(ctx, w.SessionName)
}

// yield gives up, through its relay, what a session that has died held there. A relay
// that does not take it has nothing of it any more, or not for us.
func (f *factory) yield(ctx context.Context, w *guardian.Relay) error {
	s := &config.Settings{Relay: w.URL, RelayFingerprint: w.Pin, RelayCAFile: w.Files.CA, RelayCertFile: w.Files.Cert, RelayKeyFile: w.Files.Key}
	by := &session.Relay{URL: w.URL, Pin: w.Pin, Token: func(context.Context) (string, error) { return w.Token, nil }}
	var up proxy.Upstream
	up.HTTP, up.HTTPS, up.NoProxy = childenv.Inherited(f.environ, runtime.GOOS == "windows")
	if err := openRelay(by, s, up); err != nil {
		return err
	}
	err := session.Yield(ctx, by, *w)
	var no *session.RelayRefusedError
	if errors.As(err, &no) && no.Code < 500 && no.Code != http.StatusTooManyRequests {
		return nil
	}
	return err
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
