package main

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What a package may allocate before main: a table and a few errors. The plainest
// regular expression takes more.
const (
	startBytes  = 4096
	startAllocs = 32
)

// startLine is itself what no package of ours may have: a regular expression that
// is compiled at the start. It makes this test's own package the one to be found.
var startLine = regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) bytes, (\d+) allocs$`)

// Every command starts every package of the program, so `lane version` pays for
// what the packages make at their start. The runtime counts it, the same in each
// run, which no clock does.
func TestPackagesMakeLittleAtTheirStart(t *testing.T) {
	c := command(t, "version")
	c.Env = append(c.Env, "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	c.Stderr = &trace
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	ours, found := 0, false
	for _, m := range startLine.FindAllStringSubmatch(trace.String(), -1) {
		size, sizeErr := strconv.Atoi(m[2])
		allocs, allocsErr := strconv.Atoi(m[3])
		if sizeErr != nil || allocsErr != nil {
			t.Fatalf("no counts in %q", m[0])
		}
		large := size > startBytes || allocs > startAllocs
		switch {
		case m[1] == "lane" || m[1] == "main":
			found = found || large
		case strings.HasPrefix(m[1], "lane/"):
			ours++
			if large {
				t.Errorf("%s allocates %d bytes in %d pieces at its start, more than %d in %d: make it when it is needed",
					m[1], size, allocs, startBytes, startAllocs)
			}
		}
	}
	if ours == 0 || !found {
		t.Errorf("the trace tells of %d packages, and of this test's own start: %v\n%s", ours, found, &trace)
	}
}
