package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"lane/pkg/config"
	"lane/pkg/control"
)

// detachedLog is the environment variable that tells a detached session the
// path of its log, which is its standard error.
const detachedLog = "LANE_DETACHED_LOG"

// routableLimit is how long a detached session may take to come up: longer than
// all steps of a start together.
const routableLimit = time.Minute

// detach runs this command line again without a terminal, and returns when that
// session is routable. If its start fails, what it said is said here, and its
// exit code is ours.
func (f *factory) detach(ctx context.Context, name string, args []string) (control.Status, error) {
	none := control.Status{}
	exe, err := f.executable()
	if err != nil {
		return none, fmt.Errorf("find this program: %w", err)
	}
	state, err := config.StateDir(f.system())
	if err != nil {
		return none, err
	}
	runtime, err := f.runtimeDir()
	if err != nil {
		return none, err
	}
	log, err := openLog(state, name)
	if err != nil {
		return none, err
	}
	defer func() { _ = log.Close() }() // the session has its own
	start, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return none, err
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(f.environ, detachedLog+"="+log.Name())
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, log, log
	ownSession(cmd)
	if err := cmd.Start(); err != nil {
		return none, fmt.Errorf("start the session: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	ctx, cancel := context.WithTimeout(ctx, routableLimit)
	defer cancel()
	client := control.Dial(runtime, cmd.Process.Pid)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return none, f.failedStart(log.Name(), start, err)
		case <-ctx.Done():
			// A start that nobody waits for is not left running.
			err := errors.Join(context.Cause(ctx), cmd.Process.Signal(os.Interrupt))
			<-ended
			return none, err
		case <-tick.C:
		}
		st, err := client.Status(ctx)
		if err == nil && st.State == control.SessionUp {
			return st, nil
		}
	}
}

// failedStart passes on what a session said before it ended.
func (f *factory) failedStart(log string, from int64, err error) error {
	if in, e := os.Open(log); e == nil {
		defer func() { _ = in.Close() }()
		if _, e := in.Seek(from, io.SeekStart); e == nil {
			_, _ = io.Copy(f.io.Err, in)
		}
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &exitError{code: exit.ExitCode()}
	}
	return fmt.Errorf("the session ended at its start: %w (its log is %s)", err, log)
}

// openLog opens the log of a lane's detached sessions; the one of the time
// before is kept beside it.
func openLog(state, name string) (*os.File, error) {
	dir := filepath.Join(state, "log")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the log's directory: %w", err)
	}
	path := filepath.Join(dir, name+".log")
	const keep = 1 << 20
	if i, err := os.Stat(path); err == nil && i.Size() > keep {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("keep the old log: %w", err)
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}
