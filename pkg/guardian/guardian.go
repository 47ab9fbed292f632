package guardian

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"lane/pkg/lane"
)

// Ward is what has to be cleaned up if the session dies.
type Ward struct {
	// Clean says that the session has cleaned up by itself: there is nothing to
	// do.
	Clean bool `json:"clean,omitempty"`

	Address    string `json:"address"` // of the registry
	Datacenter string `json:"datacenter,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	CAFile     string `json:"ca_file,omitempty"`
	Token      string `json:"token,omitempty"`
	TokenFile  string `json:"token_file,omitempty"`

	// SessionName is the name that only the registry's sessions of this session bear:
	// one may have been opened of which nobody has heard the ID yet.
	SessionName string       `json:"session_name,omitempty"`
	Session     string       `json:"session,omitempty"` // the registry's session behind the claims
	Claims      []lane.Claim `json:"claims,omitempty"`  // with the IDs of the instances
	Mark        string       `json:"mark,omitempty"`    // of the instances, which no other session's bear
	Group       int          `json:"group,omitempty"`   // process group of the session's command
	Socket      string       `json:"socket,omitempty"`  // of the session's control API
	Log         string       `json:"log,omitempty"`     // of a session without a terminal
	// Astray says that something was cut off on its way to the registry, which may come
	// after its removal.
	Astray bool `json:"astray,omitempty"`
	// Relay is by which relay the session came in, which holds everything for it.
	Relay *Relay `json:"relay,omitempty"`
}

// Relay is what there is to give up through a relay, and how to come in there.
type Relay struct {
	URL   string     `json:"url"`
	Pin   string     `json:"pin,omitempty"`
	Files RelayFiles `json:"files"`
	Token string     `json:"token"`

	Install string     `json:"install"`
	Host    string     `json:"host"`
	Agent   string     `json:"agent"` // as the relay knows the session
	Claims  []FarClaim `json:"claims"`
}

// RelayFiles are the certificates for a relay, by their files; "" where there is none.
type RelayFiles struct {
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

// FarClaim is a claim that a relay holds for a session.
type FarClaim struct {
	Lane    string `json:"lane"`
	Service string `json:"service"`
	Join    bool   `json:"join,omitempty"`
}

// Guardian is the session's end of the pipe.
type Guardian struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser // nothing is ever written to it: its end is the process's
	gone chan struct{}
}

// Start starts cmd, which has to call Watch, as a guardian: in a session of its
// own, so that what ends ours (a closed terminal, a signal to the group) does
// not end it too.
func Start(cmd *exec.Cmd) (*Guardian, error) {
	own(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guardian: %w", errors.Join(err, in.Close()))
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	g := &Guardian{cmd: cmd, in: in, out: out, gone: make(chan struct{})}
	go func() {
		defer close(g.gone)
		_, _ = io.Copy(io.Discard, out)
	}()
	return g, nil
}

// Gone is closed when the guardian has ended: by itself, or because it was to.
func (g *Guardian) Gone() <-chan struct{} { return g.gone }

// Bury ends what is left of a guardian that is gone, and says how it ended.
func (g *Guardian) Bury() error {
	_ = g.in.Close() // nobody reads there
	defer time.AfterFunc(farewell, func() { _ = g.cmd.Process.Kill() }).Stop()
	return g.cmd.Wait()
}

// Tell replaces what the guardian knows.
func (g *Guardian) Tell(w Ward) error {
	line, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if _, err := g.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("tell the guardian: %w", err)
	}
	return nil
}

// farewell is how long a dismissed guardian may take to end.
const farewell = 2 * time.Second

// Dismiss tells the guardian that there is nothing left to do and waits for its
// end; one that does not end by itself, because somebody has stopped it, is
// killed: it has nothing to clean up.
func (g *Guardian) Dismiss() error {
	told := g.Tell(Ward{Clean: true})
	closed := g.in.Close()
	defer time.AfterFunc(farewell, func() { _ = g.cmd.Process.Kill() }).Stop()
	<-g.gone // its pipe must not be closed while it is read
	if err := g.cmd.Wait(); err != nil {
		return errors.Join(told, closed, fmt.Errorf("guardian: %w", err))
	}
	return errors.Join(told, closed)
}

// Leave closes the pipe as a death would and does not wait: the guardian goes on
// trying to remove what the session could not.
func (g *Guardian) Leave() error {
	err := errors.Join(g.in.Close(), g.out.Close(), g.cmd.Process.Release())
	<-g.gone
	return err
}

// settle is how long after a clean-up there is another one: what the session was
// writing when it died may arrive only after the first.
const settle = 500 * time.Millisecond

// astrayLooks is how often what was cut off is looked for, each time after twice as
// long: for half a minute in all.
const astrayLooks = 7

// Watch is the guardian's own process: it reads wards from the pipe until its
// end, and then has the last one cleaned up, again and again until it is, and was for a
// while, or limit has passed.
func Watch(ctx context.Context, in io.Reader, limit time.Duration, clean func(context.Context, Ward) error) error {
	var last Ward
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // half a line is of no use: the one before holds
		}
		var w Ward
		if err := json.Unmarshal(line, &w); err != nil {
			return fmt.Errorf("guardian: %w", err)
		}
		last = w
	}
	if last.Clean {
		return nil
	}
	endGroup(last.Group)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	looks := 2
	if last.Astray {
		looks = astrayLooks
	}
	next := settle
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := clean(ctx, last)
		wait := pause
		if err == nil {
			if looks--; looks == 0 {
				return nil
			}
			wait, next = next, 2*next
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}
