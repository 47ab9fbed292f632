//go:build unix

package faults

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"lane/cmd"
)

// The long form is asked for by flags.
var (
	long   = flag.Bool("long", false, "take the time that a fault takes, in place of a scaled one")
	page   = flag.String("page", "", "write the tables into this `FILE`")
	binary = flag.String("lane", "", "the `PROGRAM` to test; default: this test binary")
	at     = flag.String("at", "", "what is tested, for the page")
	seed   = flag.Uint64("seed", 0, "of what is random; 0 draws one")
)

// asProgram makes this test binary the program.
const asProgram = "LANE_FAULTS_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cmd.Main())
	}
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1e6) + 1
	}
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		// Most of a fault is waiting, each with a registry of its own.
		_ = flag.Set("test.parallel", "5")
	}
	code := m.Run()
	if *page != "" && code == 0 {
		if err := report.write(*page); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// limit bounds every waiting: it ends what hangs, and is no measure of speed.
const limit = time.Minute

// form is the long duration, or the short one.
func form(short, whole time.Duration) time.Duration {
	if *long {
		return whole
	}
	return short
}

// numberFlag is a flag for a number of its own, beside those of the forms.
func numberFlag(name string, short, whole int, usage string) func() int {
	n := flag.Int(name, 0, usage)
	return func() int {
		if *n > 0 {
			return *n
		}
		if *long {
			return whole
		}
		return short
	}
}

// await polls until ok, and fails with what at the limit.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	awaitWithin(t, limit, what, ok)
}

func awaitWithin(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	end := time.After(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// pause waits for a time that is part of a fault.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
