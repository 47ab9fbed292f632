package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lane/pkg/config"
	"lane/pkg/logfile"
	"lane/pkg/session"
)

// lastEnd is why a detached session ended that nobody had asked to. It lies beside its
// log, as nobody was there to read it.
type lastEnd struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`

	lane, log string
}

func (e *lastEnd) words(now time.Time) string {
	at := e.At.In(now.Location())
	form := time.DateTime
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		form = time.TimeOnly
	}
	return fmt.Sprintf("the last session of lane %s ended %s: %s (log %s)", e.lane, at.Format(form), e.Why, e.log)
}

func endOf(log string) string { return log + ".end" }

// leaveEnd notes the end of a detached session that was up, unless `lane down` has asked
// for it. Who sends it a signal is mostly not its owner.
func leaveEnd(log string, now time.Time, err error) error {
	if err == nil {
		return nil
	}
	why := err.Error()
	var by *session.InterruptedError
	if errors.As(err, &by) {
		why = by.How
		var left *session.LeftBehindError
		if errors.As(err, &left) {
			why += "; " + left.Error()
		}
	}
	return writeEnd(log, os.O_TRUNC, now, why)
}

// leaveDeath notes, as its guardian, that a detached session has died, which may have
// noted its own end before.
func leaveDeath(log string, now time.Time) error {
	err := writeEnd(log, os.O_EXCL, now, "its process was killed, or broke off by a fault that its log shows")
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func writeEnd(log string, how int, now time.Time, why string) error {
	raw, err := json.Marshal(lastEnd{At: now, Why: strings.ReplaceAll(why, "\n", "; ")})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(endOf(log), os.O_WRONLY|os.O_CREATE|how, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Close())
}

// lastEnd is how the last detached session of a lane, "" for any, has ended by itself;
// nil if it did not.
func (f *factory) lastEnd(name string) *lastEnd {
	state, err := config.StateDir(f.system())
	if err != nil {
		return nil
	}
	if name == "" {
		name = "*"
	}
	logs, err := filepath.Glob(filepath.Join(state, "log", name+".*.log"))
	if err != nil {
		return nil
	}
	last := ""
	for _, l := range logs {
		if last == "" || sinceLane(l) > sinceLane(last) {
			last = l
		}
	}
	e := &lastEnd{lane: laneOfLog(last), log: last}
	raw, err := os.ReadFile(endOf(last))
	if err != nil || json.Unmarshal(raw, e) != nil || e.At.IsZero() {
		return nil
	}
	return e
}

// lastWords says how the last session of a lane ended by itself, "" if it did not.
func (f *factory) lastWords(name string) string {
	e := f.lastEnd(name)
	if e == nil {
		return ""
	}
	return e.words(f.now())
}

// sinceLane is the part of a log's name that begins with the time.
func sinceLane(path string) string {
	_, rest, _ := strings.Cut(filepath.Base(path), ".")
	return rest
}

// removeLog removes a log, its older files and what is told of its end.
func removeLog(path string) error {
	err := os.Remove(endOf(path))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, logfile.Remove(path))
}
