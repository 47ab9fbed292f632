//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// sample is one repetition of one target.
type sample struct {
	one     float64 // MB/s
	beside  float64 // MB/s, beside the stalled ones
	p50     float64 // ms, echoes one after the other
	p99     float64
	opened  float64 // ms, the median of connecting and one echo
	all     float64 // s, 1,000 at once
	refused int     // of these
}

type results struct {
	o       *options
	targets []*target
	load    string
	samples map[string][]sample
	dead    []float64 // s
	memory  float64   // KiB for an idle stream, of lane
}

const (
	stalled  = 20
	echoes   = 1000
	inTurn   = 50
	idleOnes = 250
)

// measure goes through all targets, and the next repetition in the reverse order:
// what slows the machine for a while slows all of them.
func (r *results) measure(ctx context.Context) error {
	r.samples = map[string][]sample{}
	lane := slices.IndexFunc(r.targets, func(t *target) bool { return t.name == "lane" })
	if lane >= 0 {
		// Before any transfer: what is measured is what streams cost.
		if err := r.idle(ctx, r.targets[lane]); err != nil {
			return fmt.Errorf("idle streams: %w", err)
		}
	}
	for n := range r.o.reps {
		order := slices.Clone(r.targets)
		if n%2 == 1 {
			slices.Reverse(order)
		}
		for _, t := range order {
			fmt.Fprintf(os.Stderr, "repetition %d of %d: %s\n", n+1, r.o.reps, t.name)
			s, err := r.sample(ctx, t)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			r.samples[t.name] = append(r.samples[t.name], s)
		}
	}
	if lane >= 0 {
		for range min(3, r.o.reps) {
			if err := r.pullCable(ctx, r.targets[lane]); err != nil {
				return fmt.Errorf("a dead peer: %w", err)
			}
		}
	}
	return nil
}

func (r *results) sample(ctx context.Context, t *target) (sample, error) {
	var s sample
	var err error
	if _, err = pull(t.addr, r.o.bytes/8); err != nil { // thrown away
		return s, err
	}
	if s.one, err = pull(t.addr, r.o.bytes); err != nil {
		return s, err
	}
	if s.p50, s.p99, err = echoOne(t.addr, inTurn); err != nil {
		return s, fmt.Errorf("echoes: %w", err)
	}
	if s.opened, err = echoEach(t.addr, inTurn); err != nil {
		return s, fmt.Errorf("echoes on new connections: %w", err)
	}
	s.all, s.refused = echoAll(t.addr)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			reset(c)
		}
	}()
	for range stalled {
		c, err := ask(t.addr, "pull "+strconv.FormatInt(1<<30, 10))
		if err != nil {
			return s, err
		}
		_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
		held = append(held, c)
	}
	if err := rest(ctx, 2*time.Second); err != nil { // until the windows are full
		return s, err
	}
	if s.beside, err = pull(t.addr, r.o.bytes); err != nil {
		return s, fmt.Errorf("beside stalled streams: %w", err)
	}
	for _, c := range held {
		reset(c)
	}
	held = nil
	return s, rest(ctx, 500*time.Millisecond)
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func echoOne(addr string, n int) (float64, float64, error) {
	c, err := ask(addr, "echo")
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close() }()
	b := make([]byte, piece)
	if err := echo(c, b); err != nil {
		return 0, 0, err
	}
	var took []float64
	for range n {
		began := time.Now()
		if err := echo(c, b); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(began).Seconds()*1e3)
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], nil
}

func echoEach(addr string, n int) (float64, error) {
	var took []float64
	for range n {
		began := time.Now()
		c, err := ask(addr, "echo")
		if err != nil {
			return 0, err
		}
		err = echo(c, make([]byte, piece))
		took = append(took, time.Since(began).Seconds()*1e3)
		_ = c.Close()
		if err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// echoAll is a thousand connections at once, each with one echo; and how many of
// them failed.
func echoAll(addr string) (float64, int) {
	var wg sync.WaitGroup
	var failed atomic.Int64
	began := time.Now()
	for range echoes {
		wg.Go(func() {
			c, err := ask(addr, "echo")
			if err == nil {
				err = echo(c, make([]byte, piece))
				_ = c.Close()
			}
			if err != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	return time.Since(began).Seconds(), int(failed.Load())
}

// idle measures by how much the relay's memory grows for each stream that is open
// and still.
func (r *results) idle(ctx context.Context, t *target) error {
	// Twice: the second time the machinery is there already.
	for range 2 {
		before, err := resident(t.relay.Process.Pid)
		if err != nil {
			return err
		}
		var held []net.Conn
		for range idleOnes {
			c, err := ask(t.addr, "echo")
			if err != nil {
				return err
			}
			held = append(held, c)
			if err := echo(c, make([]byte, piece)); err != nil {
				return err
			}
		}
		if err := rest(ctx, 7*time.Second); err != nil {
			return err
		}
		after, err := resident(t.relay.Process.Pid)
		if err != nil {
			return err
		}
		r.memory = max(r.memory, (after-before)/idleOnes)
		for _, c := range held {
			_ = c.Close()
		}
		if err := rest(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// resident is a process's memory, in KiB.
func resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			return strconv.ParseFloat(f[1], 64)
		}
	}
	return 0, errors.New("no VmRSS")
}

// pullCable freezes the wire, and measures until a caller that waits hears of it.
func (r *results) pullCable(ctx context.Context, t *target) error {
	fmt.Fprintln(os.Stderr, "pulling the cable")
	c, err := ask(t.addr, "echo")
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	b := make([]byte, piece)
	if err := echo(c, b); err != nil {
		return err
	}
	t.wire.Freeze()
	began := time.Now()
	n, err := c.Read(b)
	found := time.Since(began)
	t.wire.Cut()
	t.wire.Thaw()
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("a caller read %d bytes and %w", n, err)
	}
	r.dead = append(r.dead, found.Seconds())
	return t.ready(ctx)
}
