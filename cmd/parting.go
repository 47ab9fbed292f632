package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"lane/pkg/config"
	"lane/pkg/lane"
	"lane/pkg/logfile"
	"lane/pkg/session"
)

// parting is how a session that is shown at a terminal goes on without it: as one that
// was begun by `lane up -d`. All that can fail is done before the screen is left.
type parting struct {
	f     *factory
	lane  lane.Name
	out   *gate // what the session says
	level *slog.LevelVar
	say   *slog.Logger // by out

	mu    sync.Mutex
	ready *readiness    // to leave; nil: not yet
	log   *logfile.File // of the session that has left; nil: it has not
	path  string
}

// readiness is what a session needs that has no terminal.
type readiness struct {
	null, fds *os.File      // for its three descriptors
	log       *logfile.File // for what it says by itself
}

// prepare opens the log. It is called again when the user has changed his mind twice.
func (p *parting) prepare(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready != nil {
		return nil
	}
	if err := canLeave(); err != nil {
		return err
	}
	state, err := config.StateDir(p.f.system())
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	fds, err := openLog(state, string(p.lane))
	if err != nil {
		return errors.Join(err, null.Close())
	}
	log, err := logfile.Open(fds.Name(), maxLog, oldLog)
	if err != nil {
		return errors.Join(fmt.Errorf("open the log: %w", err), null.Close(), fds.Close(), removeLog(fds.Name()))
	}
	p.ready = &readiness{null, fds, log}
	return nil
}

func (p *parting) take() *readiness {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ready
	p.ready = nil
	return r
}

// drop is the end of a screen that was not left: no log of what did not come to be.
func (p *parting) drop() error {
	if r := p.take(); r != nil {
		return r.drop()
	}
	return nil
}

func (r *readiness) drop() error {
	return errors.Join(r.null.Close(), r.fds.Close(), r.log.Close(), removeLog(r.fds.Name()))
}

// leave has the session go on without its terminal, which the screen has given back, and
// lets go whoever waits there. A session that has begun to end meanwhile does that here.
func (p *parting) leave(ctx context.Context, v session.View) error {
	r := p.take()
	if ctx.Err() != nil || !v.Detach(r.fds.Name()) {
		return r.drop()
	}
	if err := leaveTerminal(r.null, r.fds); err != nil {
		return err
	}
	_, _ = r.null.Close(), r.fds.Close()
	p.f.deafToHangups()
	p.level.Set(slog.LevelInfo)
	p.out.turn(r.log)
	p.mu.Lock()
	p.log, p.path = r.log, r.fds.Name()
	p.mu.Unlock()
	st, err := v.Status(ctx)
	if err != nil {
		return err
	}
	_ = p.f.banner(r.log, &st) // as every such log begins
	p.say.Info("detached: it goes on without its terminal")
	p.f.held.letGo(st)
	return nil
}

// left is the log of a session that has left its terminal, if it has: from then on all
// that this process says goes there.
func (p *parting) left() (path string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil {
		return "", false
	}
	s := p.f.io
	s.Out, s.Err = p.log, p.log
	s.IsStdinTTY, s.IsStdoutTTY, s.IsStderrTTY, s.Color, s.ErrColor = false, false, false, false, false
	return p.path, true
}

// gate drops what is written while it is shut, and can lead elsewhere.
type gate struct {
	mu   sync.Mutex
	to   io.Writer
	shut bool
	keep func() bool  // that it is kept instead, until the gate is open
	kept bytes.Buffer // what it waits for at its end is said then, in a few lines
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.shut:
		return g.to.Write(b)
	case g.keep():
		return g.kept.Write(b)
	}
	return len(b), nil
}

// close shuts the gate until the function that it returns is called. What is written from
// the end of ctx on is kept for that.
func (g *gate) close(ctx context.Context) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.keep = true, func() bool { return ctx.Err() != nil }
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = false
		_, _ = g.kept.WriteTo(g.to) // who has closed it does not read it
	}
}

// turn has all that is written from now on go elsewhere, where nothing can be torn.
func (g *gate) turn(to io.Writer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to, g.shut = to, false
}
