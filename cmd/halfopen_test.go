//go:build unix

package cmd

import (
	"net"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// halfopen N ADDRESS opens connections to a TLS server, of which every other one begins a
// handshake and none ends it, and leaves them open until the story's end.
func cmdHalfOpen(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "halfopen N ADDRESS")
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var all []net.Conn
	ts.Defer(func() {
		for _, c := range all {
			_ = c.Close()
		}
	})
	for i := range n {
		c, err := net.DialTimeout("tcp", args[1], storyLimit)
		ts.Check(err)
		if i%2 == 0 {
			_, _ = c.Write([]byte{22, 3, 1, 2, 0, 1, 0})
		}
		all = append(all, c)
	}
}

// memory FILE MIB checks that the process whose ID is in a file holds less than that.
func cmdMemory(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "memory FILE MIB")
	if runtime.GOOS != "linux" {
		return // nothing tells it there
	}
	most, err := strconv.Atoi(args[1])
	ts.Check(err)
	most *= raceMemory
	pid := regexp.MustCompile(`\d+`).FindString(ts.ReadFile(args[0]))
	text, err := os.ReadFile("/proc/" + pid + "/status")
	ts.Check(err)
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		ts.Fatalf("no VmRSS in\n%s", text)
	}
	kib, err := strconv.Atoi(string(m[1]))
	ts.Check(err)
	if kib > most<<10 {
		ts.Fatalf("process %s holds %d MiB, want less than %d", pid, kib>>10, most)
	}
	ts.Logf("%s: process %s holds %d MiB", time.Now().Format(time.TimeOnly), pid, kib>>10)
}
