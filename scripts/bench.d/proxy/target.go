//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const direct = "direct"

// tagged is a request's header if it has its tag already.
var tagged = [2]string{"x-lane-tag", tag}

// target is one thing to measure: the origin alone, or a proxy before it.
type target struct {
	name string
	addr string // where wrk connects to
	// through is set before the path: a forward proxy is asked for a whole URL.
	through string
	host    string
	send    [][2]string // headers
	load    *load       // nil: not lane's
	log     string      // an access log, emptied after each measurement

	pids        []int
	versionArgs []string
	idle        float64 // MiB, after the start
	after, peak float64 // MiB, after all measurements, and the highest
}

// check proves, with curl, that what is about to be timed does its work: the
// origin sees the tag, and the answer is whole.
func (s *stage) check(t *target) error {
	for path, size := range map[string]int{"/": 1024, "/big": 10 << 20} {
		args := []string{"-s", "-S", "-f", "-D", "-", "-o", filepath.Join(s.work, "body"), "--max-time", "20", "--noproxy", "*"}
		url := "http://" + t.addr + path
		if t.through != "" {
			args = append(args[:len(args)-2], "-x", "http://"+t.addr)
			url = t.through + path
		}
		for _, h := range t.send {
			args = append(args, "-H", h[0]+": "+h[1])
		}
		cmd := exec.CommandContext(s.ctx, "curl", append(args, "-H", "Host: "+t.host, url)...)
		cmd.Env = bare()
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: curl %s: %w\n%s", t.name, path, err, out)
		}
		seen := bytes.Contains(bytes.ToLower(out), []byte("x-lane-tag-seen: "+tag+"\r\n"))
		if seen == (t.name == direct) {
			return fmt.Errorf("%s: the origin saw the wrong tag, or none:\n%s", t.name, out)
		}
		info, err := os.Stat(filepath.Join(s.work, "body"))
		if err != nil {
			return err
		}
		if info.Size() != int64(size) {
			return fmt.Errorf("%s: %s has %d bytes of %d", t.name, path, info.Size(), size)
		}
	}
	return nil
}

// memory is a field of /proc/PID/status, summed, in MiB.
func (t *target) memory(field string) float64 {
	var sum float64
	for _, pid := range t.pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // the measurement that follows fails with it
		}
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(line, ":")
			if name != field {
				continue
			}
			if kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64); err == nil {
				sum += kib / 1024
			}
		}
	}
	return sum
}
