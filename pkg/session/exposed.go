package session

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
)

// ExposedError says that another process of this machine exposes the same name.
type ExposedError struct {
	Lane lane.Name
	Name string
	PID  int // 0: it does not answer
}

func (e *ExposedError) Error() string {
	who := fmt.Sprintf("process %d", e.PID)
	if e.PID == 0 {
		who = "a process that does not answer"
	}
	return fmt.Sprintf("%s in lane %s is exposed by another `lane expose` on this machine (%s)", e.Name, e.Lane, who)
}

// exposing is the right to expose a name of a lane on this machine. It is a socket, so
// that it ends with its process whatever ends that, and says whose it is.
type exposing struct {
	ln   net.Listener
	done sync.WaitGroup
}

// expose takes the right, which is another one for each relay. The relay would give the
// name to whoever comes last: it cannot tell a second process from the return of one
// that has crashed.
func expose(ctx context.Context, dir string, o *ExposeOptions) (*exposing, error) {
	sum := sha256.Sum256([]byte(o.Relay.URL + "\n" + string(o.Lane) + "\n" + o.Name))
	path := filepath.Join(dir, fmt.Sprintf("%x"+strings.TrimPrefix(exposedFiles, "*"), sum[:8])) // a socket's path has to be short
	for try := 0; ; try++ {
		ln, err := net.Listen("unix", path)
		if err == nil {
			e := &exposing{ln: ln}
			e.done.Go(e.tell)
			return e, nil
		}
		pid, living, other := askExposing(ctx, path)
		switch {
		case other != nil || !living && try > 0:
			return nil, fmt.Errorf("socket %s: %w", path, errors.Join(err, other))
		case living:
			return nil, &ExposedError{Lane: o.Lane, Name: o.Name, PID: pid}
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove the socket of one that has died: %w", err)
		}
	}
}

// tell says whose it is to everybody who asks.
func (e *exposing) tell() {
	for {
		c, err := e.ln.Accept()
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(lookLimit))
		_, _ = io.WriteString(c, strconv.Itoa(pid())) // who has gone does not want to know
		_ = c.Close()
	}
}

func (e *exposing) end() {
	_ = e.ln.Close() // and removes it
	e.done.Wait()
}

// exposedFiles are the sockets of exposed names in the directory of all sockets.
const exposedFiles = "*.expose"

// DeadExposed are the sockets in dir of `lane expose`s that have died. It changes nothing.
func DeadExposed(ctx context.Context, dir string) (dead []string, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, exposedFiles))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if deadExposed(ctx, path) {
			dead = append(dead, path)
		}
	}
	return dead, nil
}

// RemoveDeadExposed removes such a socket, unless somebody exposes the name by now.
func RemoveDeadExposed(ctx context.Context, path string) error {
	if !deadExposed(ctx, path) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// deadExposed reports whether nobody listens there any more, which the system itself says:
// a process that is stopped, or hangs, still does.
func deadExposed(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
	}
	return control.Refused(err)
}

// askExposing asks who has the right: living is false if nobody does any more.
func askExposing(ctx context.Context, path string) (pid int, living bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		if _, e := os.Stat(path); e != nil {
			return 0, false, nil
		}
		if ctx.Err() != nil {
			return 0, true, nil
		}
		return 0, false, nil
	}
	defer func() { _ = c.Close() }()
	until, _ := ctx.Deadline()
	_ = c.SetDeadline(until)
	raw, err := io.ReadAll(c)
	if err != nil {
		return 0, true, nil // stopped, or it hangs
	}
	pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
	return pid, true, nil
}
