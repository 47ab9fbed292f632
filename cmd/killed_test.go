//go:build unix

package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// childrenOf are the process ids of a session's children.
func childrenOf(ts *testscript.TestScript, session int) (all []string) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", session))
	ts.Check(err)
	for _, t := range tasks { // a child belongs to the thread that made it
		b, err := os.ReadFile(t)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // a thread may end
			ts.Fatalf("%v", err)
		}
		all = append(all, strings.Fields(string(b))...)
	}
	return all
}

// guardianOf is the process id of the only child of a session without a command.
func guardianOf(ts *testscript.TestScript, session int) int {
	all := childrenOf(ts, session)
	if len(all) != 1 {
		ts.Fatalf("session %d has the children %v, want its guardian", session, all)
	}
	pid, err := strconv.Atoi(all[0])
	ts.Check(err)
	return pid
}

// killguardian kills the guardian of the only session, and waits for another one.
func cmdKillGuardian(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 0, "killguardian")
	session := pidOf(ts)
	old := guardianOf(ts, session)
	ts.Check(syscall.Kill(old, syscall.SIGKILL))
	ctx, cancel := storyContext()
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if all := childrenOf(ts, session); len(all) == 1 && all[0] != strconv.Itoa(old) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("session %d has no other guardian", session)
		}
	}
}

// pidOf is the process id of the only session.
func pidOf(ts *testscript.TestScript) int {
	var st struct {
		PID int `json:"pid"`
	}
	ts.Check(json.Unmarshal([]byte(runIn(ts, []string{"lane", "status", "--json"})), &st))
	return st.PID
}

// killsession kills the only session, as a crash does, with its process group
// if it has one of its own; with "guardian", its guardian first.
func cmdKillSession(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 0, "killsession")
	session := pidOf(ts)
	if len(args) > 0 && args[0] == "guardian" {
		// Its parent is the session; stopped, that one does not see it die.
		ts.Check(syscall.Kill(session, syscall.SIGSTOP))
		ts.Check(syscall.Kill(guardianOf(ts, session), syscall.SIGKILL))
	}
	pgrp, err := syscall.Getpgid(session)
	ts.Check(err)
	if pgrp == session {
		ts.Check(syscall.Kill(-pgrp, syscall.SIGKILL))
		return
	}
	ts.Check(syscall.Kill(session, syscall.SIGKILL))
}

// within LIMIT unchanged NAME waits until the registry holds what it held then;
// within LIMIT gone FILE until the process whose id a file holds is gone; within
// LIMIT called NAME [N] until a server has got N requests.
func cmdWithin(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 3, "within LIMIT unchanged NAME | gone FILE | called NAME [N]")
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	w := worldOf(ts)
	holds := func() (bool, string) {
		switch args[1] {
		case "unchanged":
			p, err := w.picture()
			ts.Check(err)
			return p == w.saved[args[2]], p
		case "called":
			s := w.server(ts, args[2])
			s.mu.Lock()
			defer s.mu.Unlock()
			want := 1
			if len(args) > 3 {
				n, err := strconv.Atoi(args[3])
				ts.Check(err)
				want = n
			}
			return s.calls >= want, strconv.Itoa(s.calls)
		case "gone":
			pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[2])))
			ts.Check(err)
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z "), string(stat)
		}
		ts.Fatalf("within what? %s", args[1])
		return false, ""
	}
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, seen := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not within %s; last:\n%s", limit, seen)
		}
		<-tick.C
	}
}
