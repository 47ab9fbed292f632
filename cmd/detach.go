package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"lane/pkg/config"
	"lane/pkg/control"
	"lane/pkg/logfile"
)

// detachedLog is the environment variable that tells a detached session the
// path of its log, which is its standard error.
const detachedLog = "LANE_DETACHED_LOG"

// routableLimit is how long a detached session may take to come up: longer than
// all steps of a start together.
const routableLimit = time.Minute

// endLimit is how long an interrupted start may take to clean up; after that its
// guardian does.
const endLimit = 15 * time.Second

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
	began, told := time.Now(), false
	for {
		select {
		case err := <-ended:
			return none, f.failedStart(log.Name(), err)
		case <-ctx.Done():
			// A start that nobody waits for is not left running.
			err := context.Cause(ctx)
			// Not the interrupt: one that is ignored here is ignored there.
			if cmd.Process.Signal(syscall.SIGTERM) != nil { // not everywhere can it be asked
				err = errors.Join(err, cmd.Process.Kill())
			}
			select {
			case <-ended: //nolint:errcheck // how it ended now is no news
			case <-time.After(endLimit):
				err = errors.Join(err, cmd.Process.Kill())
			}
			return none, err
		case <-tick.C:
		}
		st, err := client.Status(ctx)
		if err == nil && st.State == control.SessionUp {
			return st, nil
		}
		// Its own warning is in its log, where nobody looks yet.
		if r := st.Relay; err == nil && r != nil && r.Error != "" && !told && time.Since(began) > slowStart {
			told = true
			_, _ = fmt.Fprintf(f.io.Err, "lane: the relay %s is not reached yet, and is tried again: %s\n", r.URL, r.Error) // nobody is left to tell
		}
	}
}

// slowStart is after how long who waits for a session is told what it waits for.
const slowStart = 3 * time.Second

// failedStart passes on what a session said before it ended.
func (f *factory) failedStart(log string, err error) error {
	if b, e := os.ReadFile(log); e == nil {
		for line := range strings.Lines(string(b)) {
			if !strings.HasPrefix(line, "time=") { // what it noted for later, it did not say
				_, _ = io.WriteString(f.io.Err, line) // nobody is left to tell
			}
		}
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &exitError{code: exit.ExitCode()}
	}
	if err == nil { // it was up, for less than it takes to look
		return fmt.Errorf("the session has ended already, and nothing was wrong: its command has, or `lane down` was called (its log is %s)", log)
	}
	return fmt.Errorf("the session ended at its start: %w (its log is %s)", err, log)
}

// keepLogs is how many logs of a lane's detached sessions are kept.
const keepLogs = 5

// openLog opens a log for one detached session of a lane, and removes the oldest
// ones.
func openLog(state, name string) (*os.File, error) {
	dir := filepath.Join(state, "log")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the log's directory: %w; LANE_STATE_DIR names another place", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, name+".*.log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(old) // by time: it stands in the name
	for _, path := range old[:max(0, len(old)-keepLogs+1)] {
		if err := removeLog(path); err != nil {
			return nil, fmt.Errorf("remove an old log: %w", err)
		}
	}
	// To the microsecond: of two that begin within a second the later one has to stand
	// behind, or it goes as the older one.
	now := time.Now()
	made, err := os.CreateTemp(dir, fmt.Sprintf("%s.%s-%06d.*.log", name, now.Format("20060102-150405"), now.Nanosecond()/1000))
	if err != nil {
		return nil, err
	}
	if err := made.Close(); err != nil {
		return nil, err
	}
	// What the session says by itself and what the runtime says of it (a panic) must
	// not write over each other.
	return os.OpenFile(made.Name(), os.O_WRONLY|os.O_APPEND, 0o600)
}

const (
	maxLog = 10 << 20 // bytes of one file of a detached session's log
	oldLog = 3        // older files that are kept beside it
)

// intoLog has a detached session write to its log by itself, so that it is bounded.
func (f *factory) intoLog(path string) error {
	log, err := logfile.Open(path, maxLog, oldLog)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	f.io.Out, f.io.Err = log, log // closed by the end of the process
	return nil
}
