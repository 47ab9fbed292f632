//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"lane/pkg/traffic"
	"lane/tui"
)

// memory measures what a session's exchanges and a screen that shows them hold, after
// ten times as many too: both keep the newest 5,000.
func memory() (err error) {
	src := newSource()
	ctx, stop := context.WithCancel(context.Background())
	ptm, pts, err := terminal()
	if err != nil {
		stop()
		return err
	}
	var all sync.WaitGroup
	all.Go(func() { _, _ = io.Copy(io.Discard, ptm) })
	ended := make(chan error, 1)
	go func() { ended <- tui.Run(ctx, src, tui.Options{In: pts, Out: pts, Color: true, Attached: true}) }()
	defer func() {
		stop()
		if e := <-ended; !errors.Is(e, context.Canceled) {
			err = errors.Join(err, fmt.Errorf("the screen has ended: %w", e))
		}
		_ = pts.Close()
		_ = ptm.Close()
		all.Wait()
	}()
	fmt.Printf("\n%-44s %10s\n", "exchanges recorded, a screen of 80 by 24 open", "heap")
	n := 0
	for _, until := range []int{50_000, 100_000, 200_000, 500_000} {
		for ; n < until; n++ {
			e := src.pattern[n%len(src.pattern)]
			// What each has of its own.
			e.URL = "http://users/v1/users/" + strconv.Itoa(n)
			e.TraceID = fmt.Sprintf("%032x", n)
			e.ReqHeader = traffic.HeadText(fmt.Sprintf("Accept: application/json\r\nX-Request-Id: %d\r\n%s", n, strings.Repeat("X-Other: of some length, as they are\r\n", 10)))
			src.put(e)
			if n%500 == 499 { // 5,000 a second and more; the screen keeps up
				time.Sleep(20 * time.Millisecond)
			}
		}
		time.Sleep(time.Second) // it has drawn the last ones
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Printf("%-44d %7.1f MB\n", n, float64(m.HeapAlloc)/1e6)
	}
	return nil
}
