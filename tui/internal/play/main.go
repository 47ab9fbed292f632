// Command play shows the UI with invented traffic, for looking at its screens:
//
//	go run ./tui/internal/play [-rate 5] [-state up|empty|closed|stale|down|gone|starting] [-attached | -demo] [-color] [-utf8]
//
// It is a tool for development and no part of the program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"lane/pkg/control"
	"lane/pkg/traffic"
	"lane/tui"
	"lane/tui/internal/scene"
)

func main() {
	rate := flag.Float64("rate", 5, "exchanges a second")
	state := flag.String("state", "up", "up, empty, closed, stale, down, gone or starting")
	demo := flag.Bool("demo", false, "as lane demo")
	attached := flag.Bool("attached", false, "as lane status, not as lane up")
	color := flag.Bool("color", false, "use colour")
	utf8 := flag.Bool("utf8", false, "use characters beyond ASCII")
	flag.Parse()

	ctx, stop := context.WithCancel(context.Background())
	src := &source{log: traffic.NewLog(5000), state: *state, began: time.Now()}
	var wg sync.WaitGroup
	wg.Go(func() { src.play(ctx, *rate) })
	err := tui.Run(ctx, src, tui.Options{
		In: os.Stdin, Out: os.Stdout, Color: *color, UTF8: *utf8, Attached: *attached, Demo: *demo,
		OnStop: func() { fmt.Fprintln(os.Stderr, "stop exposing") },
	})
	stop()
	wg.Wait()
	fmt.Fprintln(os.Stderr, "end:", err)
}

type source struct {
	log   *traffic.Log
	state string
	began time.Time
}

func (s *source) play(ctx context.Context, rate float64) {
	if s.state == "empty" || rate <= 0 {
		return
	}
	const beat = 20 * time.Millisecond
	tick := time.NewTicker(beat)
	defer tick.Stop()
	due := 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due += rate * beat.Seconds(); due >= 1; due-- {
			e := scene.Stream(s.log.Last()+1, 1)[0]
			e.Start = time.Now()
			s.log.Put(e)
		}
	}
}

func (s *source) lost() error {
	if s.state == "gone" && time.Since(s.began) > 3*time.Second {
		return errors.New("dial unix /run/user/1000/lane/4711.sock: connect: connection refused")
	}
	return nil
}

func (s *source) Batch(ctx context.Context, after uint64, most int) (traffic.Batch, error) {
	if err := s.lost(); err != nil {
		return traffic.Batch{}, err
	}
	return s.log.Batch(ctx, after, most)
}

func (s *source) Status(context.Context) (control.Status, error) {
	st := scene.Status()
	st.Registry.Since, st.Started = time.Now(), s.began
	st.Counts = scene.Counts(scene.Stream(1, int(s.log.Last())))
	switch s.state {
	case "closed":
		st.Services[1].State = control.StateLocalClosed
	case "stale":
		st.Registry.State, st.Registry.Since = "stale", s.began
	case "down":
		st.Registry.State, st.Registry.Since = "unreachable", s.began
		st.Registry.Error = "Get \"http://127.0.0.1:8500/v1/status/leader\": connection refused"
	case "starting":
		st.State = "starting"
		st.Services[0].State, st.Services[1].State = control.StateStarting, control.StateStarting
	}
	return st, s.lost()
}
