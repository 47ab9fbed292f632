//go:build linux

// Command tui measures what the terminal UI costs: its processor time when nothing
// happens, and with thousands of exchanges a second, beside the same traffic
// without a screen, in turns. It draws on a pseudo terminal, as for a user.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui"
)

func main() {
	rate := flag.Int("rate", 5000, "exchanges a second")
	span := flag.Duration("for", 4*time.Second, "how long each measurement takes")
	turns := flag.Int("turns", 5, "how often each is repeated")
	what := flag.String("what", "all", "`KIND` of measurement: screen, memory, session or all")
	flag.Parse()
	var err error
	for _, m := range []struct {
		kind string
		run  func() error
	}{{"screen", func() error { return run(*rate, *span, *turns) }}, {"memory", memory}, {"session", func() error { return sessions(*rate, *span, *turns) }}} {
		if err == nil && (*what == "all" || *what == m.kind) {
			err = m.run()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench tui:", err)
		os.Exit(1)
	}
}

// result is one measurement.
type result struct {
	cpu   float64 // of one core, in per cent
	draws float64 // messages to the screen in 4 s: as many View calls
}

func run(rate int, span time.Duration, turns int) error {
	var blind, seen, idle []result
	for range turns {
		for _, m := range []struct {
			into   *[]result
			rate   int
			screen bool
		}{{&blind, rate, false}, {&seen, rate, true}, {&idle, 0, true}} {
			r, err := measure(m.rate, span, m.screen)
			if err != nil {
				return err
			}
			*m.into = append(*m.into, r)
		}
	}
	b, s, i := median(blind), median(seen), median(idle)
	fmt.Printf("%-44s %8s %12s\n", fmt.Sprintf("%d x %s, medians", turns, span), "CPU", "draws in 4 s")
	for _, row := range []struct {
		name string
		r    result
	}{{fmt.Sprintf("%d exchanges/s, recorded only", rate), b}, {fmt.Sprintf("%d exchanges/s, with a screen", rate), s}, {"no traffic, with a screen", i}} {
		fmt.Printf("%-44s %7.2f%% %12.0f\n", row.name, row.r.cpu, row.r.draws)
	}
	fmt.Printf("the screen alone: %.2f %% of a core\n", s.cpu-b.cpu)
	return nil
}

func median(all []result) result {
	by := func(f func(result) float64) float64 {
		var v []float64
		for _, r := range all {
			v = append(v, f(r))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return result{by(func(r result) float64 { return r.cpu }), by(func(r result) float64 { return r.draws })}
}

// measure runs traffic for a while, with or without somebody who looks.
func measure(rate int, span time.Duration, screen bool) (_ result, err error) {
	src := newSource()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { src.play(ctx, rate) })
	if screen {
		ptm, pts, err := terminal()
		if err != nil {
			return result{}, err
		}
		defer ptm.Close()
		defer pts.Close()
		all.Go(func() { _, _ = io.Copy(io.Discard, ptm) })
		ended := make(chan error, 1)
		go func() { ended <- tui.Run(ctx, src, tui.Options{In: pts, Out: pts, Color: true, Attached: true}) }()
		defer func() {
			stop()
			if e := <-ended; !errors.Is(e, context.Canceled) {
				err = errors.Join(err, e)
			}
		}()
	}
	time.Sleep(max(span/2, 7*time.Second)) // the ring is full, and a rate has fallen to nothing
	runtime.GC()
	from, began, asked := cpu(), time.Now(), src.messages()
	time.Sleep(span)
	took := time.Since(began)
	return result{100 * float64(cpu()-from) / float64(took), float64(src.messages()-asked) * 4 / took.Seconds()}, nil
}

// cpu is the processor time of this process so far.
func cpu() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// source is a session of which the traffic is invented.
type source struct {
	log       *traffic.Log
	began     time.Time
	batches   atomic.Int64
	exchanges atomic.Uint64
	pattern   [256]traffic.Exchange
}

func (s *source) messages() int64 { return s.batches.Load() }

func (s *source) Batch(ctx context.Context, after uint64, most int) (traffic.Batch, error) {
	b, err := s.log.Batch(ctx, after, most)
	s.batches.Add(1)
	return b, err
}

// Status changes its counts, which are no reason to draw.
func (s *source) Status(context.Context) (control.Status, error) {
	return control.Status{Schema: control.StatusSchema, Lane: "dev-alice", State: control.SessionUp, Started: s.began, Proxy: "http://127.0.0.1:7474",
		Registry: control.RegistryStatus{State: "fresh", Since: time.Now()},
		Services: []control.Service{{Name: "orders", Registered: "orders", State: control.StateUp, Local: "127.0.0.1:8080", Guard: "10.2.0.77:40117"}},
		Counts:   control.Counts{Exchanges: s.exchanges.Load()}}, nil
}

// play records exchanges at a rate.
func (s *source) play(ctx context.Context, rate int) {
	if rate == 0 {
		return
	}
	const beat = 10 * time.Millisecond
	t := time.NewTicker(beat)
	defer t.Stop()
	began, n := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for due := int(time.Since(began).Seconds() * float64(rate)); n < due; n++ {
			s.record(n)
		}
	}
}

// newSource is a session without traffic.
func newSource() *source {
	s := &source{log: traffic.NewLog(5000), began: time.Now()}
	for i := range s.pattern {
		e := &s.pattern[i]
		*e = traffic.Exchange{Front: traffic.FrontForward, From: "127.0.0.1:53110", Method: "GET", URL: "http://users/v1/users/" + strconv.Itoa(i), Proto: "HTTP/1.1",
			Service: "users", Lane: "dev-alice", Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Instance: "users-7f9c", Addr: "10.2.0.14:8080",
			Status: 200, ResSize: 412, Took: time.Duration(i) * time.Millisecond, TraceID: fmt.Sprintf("%032x", i)}
		if i%5 == 0 {
			e.Kind, e.Reason, e.Service = lane.KindFallback, lane.ReasonLaneAbsent, "inventory"
		}
	}
	return s
}

// record records the exchange of a number.
func (s *source) record(n int) { s.put(s.pattern[n%len(s.pattern)]) }

func (s *source) put(e traffic.Exchange) {
	e.Start = time.Now()
	s.log.Put(e)
	s.exchanges.Add(1)
}

// terminal is a pseudo terminal of 80 by 24: our end and the program's.
func terminal() (ptm, pts *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ptm = os.NewFile(uintptr(fd), "ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	if err == nil {
		pts, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, ptm.Close())
	}
	return ptm, pts, nil
}
