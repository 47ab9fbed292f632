//go:build unix

package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Terminals of stories are windows of a tmux of the story's own: the program gets
// real keys, and what is looked at is what a user would see.

// tmux runs a command of the story's tmux.
func tmux(ts *testscript.TestScript, args ...string) (string, error) {
	w := worldOf(ts)
	sock := filepath.Join(w.runtime, "tmux")
	ctx, cancel := storyContext()
	defer cancel()
	path, err := exec.LookPath("tmux")
	ts.Check(err) // scripts/tools installs it
	// It stays when its last terminal ends: one that is about to go takes a new one, and
	// goes nevertheless.
	conf := filepath.Join(w.runtime, "tmux.conf")
	ts.Check(os.WriteFile(conf, []byte("set -s exit-empty off\n"), 0o600))
	c := exec.CommandContext(ctx, path, append([]string{"-S", sock, "-f", conf}, args...)...)
	c.Dir = ts.Getenv("WORK")
	for _, k := range []string{"PATH", "HOME", "WORK", "TMPDIR", "CONSUL_HTTP_ADDR", "LANE_RUNTIME_DIR", "LANE_STATE_DIR", "XDG_CONFIG_HOME",
		"LANE_OWNER", "LANE_PROXY_LISTEN", "NO_PROXY", "HTTP_PROXY", "GORACE"} {
		c.Env = append(c.Env, k+"="+ts.Getenv(k))
	}
	c.Env = append(c.Env, "LC_ALL=C.UTF-8", "TERM=xterm-256color", "SHELL=/bin/sh")
	out, err := c.CombinedOutput()
	return string(out), err
}

// terminal NAME WIDTHxHEIGHT COMMAND... runs a command in a new terminal.
func cmdTerminal(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 3, "terminal NAME WIDTHxHEIGHT COMMAND...")
	w, h, _ := strings.Cut(args[1], "x")
	first := len(worldOf(ts).terminals) == 0
	words := []string{"new-session", "-d", "-s", args[0], "-x", w, "-y", h}
	for _, k := range []string{"LANE_OWNER", "LANE_RUNTIME_DIR", "LANE_STATE_DIR", "LANE_RELAY", "LANE_RELAY_TOKEN_FILE"} {
		words = append(words, "-e", k+"="+ts.Getenv(k))
	}
	out, err := tmux(ts, append(append(words, "--"), args[2:]...)...)
	if err != nil {
		ts.Fatalf("tmux: %v\n%s", err, out)
	}
	worldOf(ts).terminals = append(worldOf(ts).terminals, args[0])
	if first {
		ts.Defer(func() { _, _ = tmux(ts, "kill-server") })
	}
}

// press NAME KEY... presses keys by tmux's names; a text is typed.
func cmdPress(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "press NAME KEY...")
	if out, err := tmux(ts, append([]string{"send-keys", "-t", args[0]}, args[1:]...)...); err != nil {
		ts.Fatalf("press: %v\n%s", err, out)
	}
}

// resize NAME WIDTHxHEIGHT changes a terminal's size.
func cmdResize(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "resize NAME WIDTHxHEIGHT")
	w, h, _ := strings.Cut(args[1], "x")
	if out, err := tmux(ts, "resize-window", "-t", args[0], "-x", w, "-y", h); err != nil {
		ts.Fatalf("resize: %v\n%s", err, out)
	}
}

// storm NAME N resizes a terminal N times, from one character to more than a screen has.
func cmdStorm(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "storm NAME N")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	for i := range n {
		w, h := strconv.Itoa(1+i*37%211), strconv.Itoa(1+i*53%89)
		if out, err := tmux(ts, "resize-window", "-t", args[0], "-x", w, "-y", h); err != nil {
			ts.Fatalf("storm, %d: %v\n%s", i, err, out)
		}
	}
}

// looking is how long a screen is waited for.
const looking = 60 * time.Second

// [!] shows NAME REGEXP... waits until a terminal shows all of them, or none.
func cmdShows(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, false, args, 2, "[!] shows NAME REGEXP...")
	var want []*regexp.Regexp
	for _, a := range args[1:] {
		re, err := regexp.Compile("(?m)" + a)
		ts.Check(err)
		want = append(want, re)
	}
	var screen string
	for end := time.Now().Add(looking); ; time.Sleep(50 * time.Millisecond) {
		out, err := tmux(ts, "capture-pane", "-p", "-t", args[0])
		if err != nil {
			ts.Fatalf("the terminal is gone: %v\n%s\nit showed last\n%s", err, out, screen)
		}
		screen = out
		seen := 0
		for _, re := range want {
			if re.MatchString(screen) {
				seen++
			}
		}
		if !neg && seen == len(want) || neg && seen == 0 {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("the terminal shows %d of %d:\n%s", seen, len(want), screen)
		}
	}
}

// closewindow NAME closes a terminal, as its window's cross does.
func cmdCloseWindow(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "closewindow NAME")
	if out, err := tmux(ts, "kill-session", "-t", args[0]); err != nil {
		ts.Fatalf("tmux: %v\n%s", err, out)
	}
}

// gone NAME waits until the terminal's command has ended.
func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "gone NAME")
	for end := time.Now().Add(looking); ; time.Sleep(50 * time.Millisecond) {
		if _, err := tmux(ts, "has-session", "-t", args[0]); err != nil {
			return
		}
		if time.Now().After(end) {
			out, _ := tmux(ts, "capture-pane", "-p", "-t", args[0])
			ts.Fatalf("it is still there:\n%s", out)
		}
	}
}
