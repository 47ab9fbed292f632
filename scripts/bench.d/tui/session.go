//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lane/pkg/control"
)

// aim is the least share of its throughput that a session keeps when somebody
// looks at it.
const aim = 0.97

// load is one measurement of a session's proxy.
type load struct {
	rps     float64
	session float64 // of one core, in per cent
	viewer  float64
}

// sessions measures a session under as many requests as wrk gets through it, with
// `lane status` attached and without, in turns.
func sessions(rate int, span time.Duration, turns int) (err error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		return fmt.Errorf("requests through a session: %w (Debian package wrk)", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Duration(turns)*(4*span+40*time.Second)+2*time.Minute)
	defer stop()
	dir, err := os.MkdirTemp("", "lane")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin, origin, steady := filepath.Join(dir, "lane"), filepath.Join(dir, "origin"), filepath.Join(dir, "rate")
	for to, pkg := range map[string]string{bin: ".", steady: "./scripts/bench.d/rate", origin: "./scripts/bench.d/origin"} {
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", to, pkg).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TERM=xterm-256color", "LANE_STATE_DIR=" + dir, "LANE_RUNTIME_DIR=" + dir, "LANE_OWNER=bench"}
	local, end, err := started(ctx, false, env, origin)
	if err != nil {
		return err
	}
	defer end()
	registry, end, err := started(ctx, false, env, bin, "registry", "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer end()
	env = append(env, "CONSUL_HTTP_ADDR="+registry[strings.LastIndexByte(registry, ' ')+1:])
	_, port, err := net.SplitHostPort(local)
	if err != nil {
		return err
	}
	// As lane up -d runs it: no exchange is printed.
	_, end, err = started(ctx, true, append(slices.Clone(env), "LANE_DETACHED_LOG="+filepath.Join(dir, "log")), bin, "up", "dev-alice", "-s", "orders="+port, "--plain", "--proxy", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer end()
	st, err := up(ctx, dir)
	if err != nil {
		return err
	}

	most := func(span time.Duration) (float64, error) { return wrk(ctx, st, span) }
	fixed := func(span time.Duration) (float64, error) { return atRate(ctx, st, span, steady, rate) }
	var alone, seen, held, heldSeen []load
	for turn := range turns {
		for i := range 2 {
			looks := (turn+i)%2 == 1 // the other way round each second time
			l, err := measureSession(ctx, st, span, env, bin, looks, most)
			if err != nil {
				return err
			}
			h, err := measureSession(ctx, st, span, env, bin, looks, fixed)
			if err != nil {
				return err
			}
			if looks {
				seen, heldSeen = append(seen, l), append(heldSeen, h)
			} else {
				alone, held = append(alone, l), append(held, h)
			}
		}
	}
	var ratios []float64
	for i := range alone {
		ratios = append(ratios, seen[i].rps/alone[i].rps)
	}
	fmt.Printf("\n%-44s %10s %12s %12s\n", fmt.Sprintf("%d x %s, 16 connections, medians", turns, span), "requests/s", "session CPU", "viewer CPU")
	for _, row := range []struct {
		name string
		all  []load
	}{{"a session, as fast as it can", alone}, {"the same with lane status attached", seen},
		{fmt.Sprintf("a session at %d requests/s", rate), held}, {"the same with lane status attached", heldSeen}} {
		of := func(f func(load) float64) float64 { return middle(row.all, f) }
		fmt.Printf("%-44s %10.0f %11.1f%% %11.1f%%\n", row.name, of(func(l load) float64 { return l.rps }),
			of(func(l load) float64 { return l.session }), of(func(l load) float64 { return l.viewer }))
	}
	ratio := middle(ratios, func(r float64) float64 { return r })
	verdict := "met"
	if ratio < aim {
		verdict = "missed"
	}
	fmt.Printf("throughput with a viewer: %.3f of that without (aim %.2f, %s)\n", ratio, aim, verdict)
	return nil
}

func middle[T any](all []T, f func(T) float64) float64 {
	var v []float64
	for _, x := range all {
		v = append(v, f(x))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// started starts a program and reads the first line that it prints, unless it is
// silent; end interrupts it and waits.
func started(ctx context.Context, silent bool, env []string, args ...string) (line string, end func(), err error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	r := bufio.NewReader(out)
	if !silent {
		line, err = r.ReadString('\n')
	}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, r) }()
	end = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-drained
		_ = cmd.Wait() // an interrupt is no failure
	}
	if err != nil {
		end()
		return "", nil, fmt.Errorf("%s: %w\n%s", args, err, &said)
	}
	return strings.TrimSpace(line), end, nil
}

// up waits for the session.
func up(ctx context.Context, dir string) (control.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		seen, err := control.Look(ctx, dir)
		if err == nil && len(seen.Running) == 1 {
			if st := seen.Running[0].Status; len(st.Services) == 1 && st.Services[0].State == control.StateUp {
				return st, nil
			}
		}
		select {
		case <-ctx.Done():
			return control.Status{}, errors.Join(errors.New("the session did not come up"), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var rpsIs = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)

func measureSession(ctx context.Context, st control.Status, span time.Duration, env []string, bin string, looks bool, send func(time.Duration) (float64, error)) (l load, err error) {
	viewer := 0
	if looks {
		pid, end, err := attach(ctx, env, bin)
		if err != nil {
			return l, err
		}
		viewer = pid
		defer func() { err = errors.Join(err, end()) }()
	}
	if _, err := send(time.Second); err != nil { // thrown away; the viewer is there then
		return l, err
	}
	s, err := spent(st.PID)
	if err != nil {
		return l, err
	}
	v, err := spent(viewer)
	if err != nil {
		return l, err
	}
	began := time.Now()
	if l.rps, err = send(span); err != nil {
		return l, err
	}
	took := time.Since(began)
	s2, err := spent(st.PID)
	if err != nil {
		return l, err
	}
	v2, err := spent(viewer)
	l.session, l.viewer = 100*float64(s2-s)/float64(took), 100*float64(v2-v)/float64(took)
	return l, err
}

// wrk sends whole URLs, as a program with HTTP_PROXY does.
func wrk(ctx context.Context, st control.Status, span time.Duration) (rps float64, err error) {
	script, err := os.CreateTemp("", "*.lua")
	if err != nil {
		return 0, err
	}
	defer os.Remove(script.Name())
	_, err = script.WriteString("wrk.path = \"http://orders/\"\nwrk.headers[\"Host\"] = \"orders\"\n")
	if err := errors.Join(err, script.Close()); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c16", "-d"+strconv.Itoa(max(1, int(span.Seconds())))+"s", "-s", script.Name(), st.Proxy+"/").CombinedOutput()
	m := rpsIs.FindSubmatch(out)
	if err != nil || m == nil || bytes.Contains(out, []byte("Non-2xx")) {
		return 0, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// atRate sends requests at a rate.
func atRate(ctx context.Context, st control.Status, span time.Duration, bin string, rate int) (rps float64, err error) {
	out, err := exec.CommandContext(ctx, bin, "-addr", strings.TrimPrefix(st.Proxy, "http://"), "-path", "http://orders/", "-rate", strconv.Itoa(rate),
		"-conns", "16", "-time", span.String(), "-H", "Host: orders").CombinedOutput()
	_, line, _ := strings.Cut(string(out), "RESULT ")
	var requests, micros int64
	if _, e := fmt.Sscan(line, &requests, &micros); err != nil || e != nil || micros == 0 {
		return 0, fmt.Errorf("rate: %w\n%s", errors.Join(err, e), out)
	}
	return float64(requests) * 1e6 / float64(micros), nil
}

// attach runs lane status on a pseudo terminal; end says so if it had gone before.
func attach(ctx context.Context, env []string, bin string) (pid int, end func() error, err error) {
	ptm, pts, err := terminal()
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, bin, "status")
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, pts, pts, pts
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(cmd.Start(), pts.Close()); err != nil {
		return 0, nil, errors.Join(err, ptm.Close())
	}
	drawn := make(chan int64, 1)
	go func() { n, _ := io.Copy(io.Discard, ptm); drawn <- n }()
	return cmd.Process.Pid, func() error {
		stopped := cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		err := errors.Join(stopped, ptm.Close())
		if n := <-drawn; n < 1000 {
			err = errors.Join(err, fmt.Errorf("the viewer drew %d bytes", n))
		}
		return err
	}, nil
}

// spent is the processor time of a process so far; of none, nothing.
func spent(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2) // USER_HZ is 100
}
