//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mode is one kind of measurement.
type mode struct {
	key   string // column of the results
	path  string
	conns int
	one   bool // the proxy on the load's CPU too
	rate  int  // requests a second, 0 for as many as there can be
}

const (
	modeOne = "one"
	modeBig = "big"
)

func parseMode(name string) (mode, error) {
	switch name {
	case modeOne:
		return mode{key: name, path: "/", conns: 1, one: true}, nil
	case modeBig:
		return mode{key: name, path: "/big", conns: 4}, nil
	}
	n, err := strconv.Atoi(name[min(len(name), 1):])
	switch {
	case err == nil && n > 0 && name == "c"+strconv.Itoa(n):
		return mode{key: name, path: "/", conns: n}, nil
	case err == nil && n > 0 && name == "r"+strconv.Itoa(n):
		return mode{key: name, path: "/", conns: 16, rate: n}, nil
	}
	return mode{}, fmt.Errorf("--modes: %q is none", name)
}

// sample is what one measurement saw.
type sample struct {
	rps, p50, p99 float64 // a second; µs
	mb            float64 // MB a second
	cpu           float64 // µs a request, of the proxy
	errors        int64
	outside       float64 // CPUs that others used meanwhile
}

// most is how much of a CPU others may use in a measurement that counts.
const most = 0.35

func (s *sample) disturbed() bool { return s.outside > most }

// script tells wrk what to send. It is run before the load: nothing of it is run
// for a request, unless each is to have a number of its own.
const script = `wrk.path = %q
wrk.headers["Host"] = %q
%s
function done(s, l, r)
  local e = s.errors
  io.write(string.format("RESULT %%d %%d %%d %%d %%d %%d\n", s.requests, s.duration, s.bytes,
    l:percentile(50), l:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
`

// numbered has wrk put a number into each request, in place of eight signs that
// Lua takes for themselves.
const numbered = `local before, after, n = "", "", 0
function init(args)
  before, after = wrk.format():match("^(.*)` + mark + `(.*)$")
end
function request()
  n = n + 1
  return before .. string.format("%08x", n) .. after
end
`

// mark stands in a header where a request has its number.
const mark = "@@@@@@@@"

// measureAll goes through everything, and the other way round each second time.
func (s *stage) measureAll(o *options, r *results) error {
	for rep := range o.reps {
		for _, m := range o.modes {
			for i := range s.targets {
				t := s.targets[i]
				if rep%2 == 1 {
					t = s.targets[len(s.targets)-1-i]
				}
				got, err := s.measure(o, t, m)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", t.name, m.key, err)
				}
				fmt.Fprintf(os.Stderr, "%d/%d %-4s %-12s %8.0f/s  p50 %6.0f  p99 %6.0f µs  %7.0f MB/s  cpu %6.1f µs  errors %d  outside %.2f\n",
					rep+1, o.reps, m.key, t.name, got.rps, got.p50, got.p99, got.mb, got.cpu, got.errors, got.outside)
				r.add(t, m, got)
			}
		}
	}
	return nil
}

// measure waits for a quiet machine, and measures; once more if it was disturbed.
func (s *stage) measure(o *options, t *target, m mode) (best sample, err error) {
	if m.one {
		if err := moveTo(loadCPU, t.pids); err != nil {
			return best, err
		}
		defer func() {
			if e := moveTo(proxyCPU, t.pids); err == nil {
				err = e
			}
		}()
	}
	for try := range 2 {
		if err := s.quiet(); err != nil {
			return best, err
		}
		start := time.Now()
		if _, err := s.run(o, t, m, o.warm); err != nil {
			return best, err
		}
		length := o.seconds
		if m.rate > 0 {
			length = o.steady
		}
		got, err := s.run(o, t, m, length)
		if err != nil {
			return best, err
		}
		if try == 0 || got.outside < best.outside {
			best = got
		}
		if !got.disturbed() || s.patience <= 0 {
			break
		}
		s.patience -= time.Since(start)
	}
	return best, nil
}

// client is the command that sends the load. Each run's requests are numbered
// anew, so that no two of them are of one trace.
func (s *stage) client(o *options, t *target, m mode, length time.Duration) ([]string, error) {
	s.runs++
	fill := strings.NewReplacer("RUNRUN", fmt.Sprintf("%06x", s.runs))
	seconds := strconv.Itoa(int(length.Seconds()))
	if m.rate > 0 {
		args := []string{o.rate, "-addr", t.addr, "-path", t.through + m.path, "-rate", strconv.Itoa(m.rate), "-conns", strconv.Itoa(m.conns), "-time", seconds + "s", "-H", "Host: " + t.host}
		for _, h := range t.send {
			args = append(args, "-H", h[0]+": "+fill.Replace(h[1]))
		}
		return args, nil
	}
	var headers strings.Builder
	for _, h := range t.send {
		fmt.Fprintf(&headers, "wrk.headers[%q] = %q\n", h[0], fill.Replace(h[1]))
	}
	if strings.Contains(headers.String(), mark) {
		headers.WriteString(numbered)
	}
	file := filepath.Join(s.work, "wrk.lua")
	if err := os.WriteFile(file, fmt.Appendf(nil, script, t.through+m.path, t.host, &headers), 0o644); err != nil {
		return nil, err
	}
	return []string{"wrk", "-t1", "-c" + strconv.Itoa(m.conns), "-d" + seconds + "s", "--timeout", "10s", "-s", file, "http://" + t.addr + "/"}, nil
}

// run runs the load once.
func (s *stage) run(o *options, t *target, m mode, length time.Duration) (out sample, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, length+time.Minute)
	defer cancel()
	args, err := s.client(o, t, m, length)
	if err != nil {
		return out, err
	}
	cmd := s.pinned(ctx, loadCPU, args...)
	cmd.Env = bare()
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text

	before, err := s.clocks(t)
	if err != nil {
		return out, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return out, err
	}
	if err := errors.Join(s.favour(cmd.Process.Pid), cmd.Wait()); err != nil {
		return out, fmt.Errorf("%s: %w\n%s", args[0], err, &text)
	}
	wall := time.Since(start)
	after, err := s.clocks(t)
	if err != nil {
		return out, err
	}
	ours := after.proxy - before.proxy + after.origin - before.origin + cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	out.outside = max(0, float64(after.all-before.all-ours)/float64(wall))
	if err := out.read(text.String(), t, after.proxy-before.proxy); err != nil || t.log == "" {
		return out, err
	}
	return out, os.Truncate(t.log, 0) // it would fill the disk
}

// clocks are CPU times at one moment.
type clocks struct{ all, proxy, origin time.Duration }

func (s *stage) clocks(t *target) (c clocks, err error) {
	if c.all, err = busy(); err != nil {
		return c, err
	}
	if c.origin, err = cpuTime(s.originID); err != nil {
		return c, err
	}
	for _, pid := range t.pids {
		spent, err := cpuTime(pid)
		if err != nil {
			return c, err
		}
		c.proxy += spent
	}
	return c, nil
}

// read takes the load's result and the proxy's CPU time.
func (s *sample) read(text string, t *target, cpu time.Duration) error {
	_, line, _ := strings.Cut(text, "RESULT ")
	var requests, micros, size int64
	if _, err := fmt.Sscan(line, &requests, &micros, &size, &s.p50, &s.p99, &s.errors); err != nil || micros == 0 {
		return fmt.Errorf("there is no result: %w\n%s", err, text)
	}
	if requests == 0 {
		if t.load != nil || t.name == direct {
			return fmt.Errorf("no request was answered:\n%s", text)
		}
		return nil // a peer so slow is a result too
	}
	s.rps = float64(requests) * 1e6 / float64(micros)
	s.mb = float64(size) / float64(micros)
	s.cpu = float64(cpu.Microseconds()) / float64(requests)
	if t.load != nil {
		if s.errors > 0 {
			return fmt.Errorf("%d requests failed:\n%s", s.errors, text)
		}
		t.load.sent += requests
	}
	return nil
}
