package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Spec is a command to run.
type Spec struct {
	Args     []string // name and arguments, at least one
	Env      []string
	Dir      string
	In       io.Reader // os.Stdin to give the command the terminal
	Out, Err io.Writer
	// Gate is a program with arguments that calls Pass: the command begins only when Go
	// is called, and never when this process dies before that. Where a process cannot
	// become another one, and if it is empty, the command begins at once.
	Gate []string
	// Grace is how long the group may take to end after it was asked to, before
	// it is killed.
	Grace time.Duration
}

// ExitError is the end of a command that was not a success.
type ExitError struct {
	Name string
	Code int // the command's own, or 128 + the signal that ended it
}

func (e *ExitError) Error() string { return fmt.Sprintf("%s: exit code %d", e.Name, e.Code) }

// StartError says that a command could not be started.
type StartError struct {
	Name string
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("start %s: %v", e.Name, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// ErrTold is the error of a gate whose starter knows why it could not become the
// command.
var ErrTold = errors.New("the starter was told why it cannot begin")

// Child is a running command.
type Child struct {
	spec Spec
	cmd  *exec.Cmd
	term *terminal
	gate *gate // nil: none
	done chan struct{}
	err  error
}

// Start starts a command. The caller waits for its end with Wait or Stop.
func Start(s Spec) (*Child, error) {
	cmd := exec.Command(s.Args[0], s.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Env, s.Dir, s.In, s.Out, s.Err
	// Pipes that a left-over grandchild keeps open must not hold Wait back.
	cmd.WaitDelay = pipes
	var held *gate
	if len(s.Gate) > 0 {
		var err error
		if held, err = hold(cmd, s.Gate); err != nil {
			return nil, &StartError{Name: s.Args[0], Err: err}
		}
		defer held.started()
	}
	term := group(cmd)
	if err := cmd.Start(); err != nil {
		term.giveBack()
		if held != nil {
			held.close()
		}
		return nil, &StartError{Name: s.Args[0], Err: err}
	}
	c := &Child{spec: s, cmd: cmd, term: term, gate: held, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		stopped := term.follow(cmd.Process.Pid)
		err := cmd.Wait()
		<-stopped
		term.giveBack()
		c.err = c.outcome(err)
	}()
	return c, nil
}

// Go lets a command begin that a gate holds back, and returns when it has. It is
// called once; a command that is not to begin is stopped.
func (c *Child) Go() error {
	if c.gate == nil {
		return nil
	}
	if err := c.gate.open(); err != nil {
		return &StartError{Name: c.spec.Args[0], Err: err}
	}
	return nil
}

// PID is the command's process id, and the id of its group where groups exist.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the command has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits until the command has ended: nil, or an *ExitError.
func (c *Child) Wait() error {
	<-c.done
	return c.err
}

// Signal sends a signal to the command's group.
func (c *Child) Signal(sig os.Signal) error { return signalGroup(c.cmd, sig) }

// Stop asks the group to end, waits for the grace, kills what is left of it,
// and returns as Wait does. If ctx ends, the grace is over.
func (c *Child) Stop(ctx context.Context) error {
	select {
	case <-c.done:
	default:
		if err := endGroup(c.cmd); err != nil {
			return fmt.Errorf("end %s: %w", c.spec.Args[0], err)
		}
		timer := time.NewTimer(c.spec.Grace)
		defer timer.Stop()
		select {
		case <-c.done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	// Grandchildren outlive a polite parent.
	if err := killGroup(c.cmd); err != nil {
		return fmt.Errorf("kill %s: %w", c.spec.Args[0], err)
	}
	timer := time.NewTimer(dying)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.err
	case <-timer.C: // another user's, after sudo; or one that the system does not let go
		return fmt.Errorf("%s (process %d) cannot be ended", c.spec.Args[0], c.PID())
	}
}

// dying is how long a command that was killed may take to end.
const dying = 2*time.Second + pipes

// pipes is how long a grandchild may keep the command's output open.
const pipes = time.Second

func (c *Child) outcome(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil
	case errors.As(err, &exit):
		return &ExitError{Name: c.spec.Args[0], Code: exitCode(exit.ProcessState)}
	}
	return fmt.Errorf("wait for %s: %w", c.spec.Args[0], err)
}
