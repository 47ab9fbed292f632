package cmd

import (
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"

	"lane/pkg/control"
	"lane/pkg/session"
)

// A session that is shown at a terminal is a process of its own, so that it can go on
// without that: whoever waits for it there, a shell above all, waits for its holder,
// the process that was called, which can end alone.
//
//	shell --- lane up (holder) ==== leash ====> lane up (session, screen)
//	             signals, its own death -->
//	             <-- the session's status, when it is let go

// leashVar tells a process that it is on a leash.
const leashVar = "LANE_LEASH"

// pull is what comes by a leash: which signal the holder got, or that it is dead.
type pull byte

const (
	pullInterrupt pull = 'i'
	pullTerminate pull = 't'
	pullHangUp    pull = 'h'
	pullTorn      pull = 0
)

// pullFor is the pull for what has ended the holder's context.
func pullFor(cause error) pull {
	switch cause {
	case errTerminated: //nolint:errorlint // to errors.Is they are one
		return pullTerminate
	case errHungUp:
		return pullHangUp
	}
	return pullInterrupt
}

var errTorn error = &session.InterruptedError{How: "with the process that held its terminal, which was killed"}

// why is the cause that a pull is.
func (p pull) why() error {
	switch p {
	case pullTerminate:
		return errTerminated
	case pullHangUp:
		return errHungUp
	case pullTorn:
		return errTorn
	}
	return errInterrupted
}

// wishes are how often a process was asked to end. What a terminal sends reaches holder
// and session both, and is one wish.
type wishes struct{ direct, told int }

func (w wishes) pulled(p pull) wishes {
	if p == pullTorn {
		w.told = max(w.told, 1) // a death asks to end; it does not hurry
	} else {
		w.told++
	}
	return w
}

func (w wishes) count() int { return max(w.direct, w.told) }

// leash is the session's end of one. Without one it is nil, and pulls nobody.
type leash struct {
	from, to *os.File
	pull     chan pull
	loose    atomic.Bool // let go: its end says nothing
	done     chan struct{}
}

func newLeash(from, to *os.File) *leash {
	l := &leash{from: from, to: to, pull: make(chan pull, 4), done: make(chan struct{})}
	go l.read()
	return l
}

func (l *leash) pulls() <-chan pull {
	if l == nil {
		return nil
	}
	return l.pull
}

func (l *leash) read() {
	defer close(l.done)
	for one := make([]byte, 1); ; {
		n, err := l.from.Read(one)
		p := pullTorn
		if n > 0 {
			p = pull(one[0])
		}
		if n > 0 || !l.loose.Load() && !errors.Is(err, os.ErrClosed) {
			select {
			case l.pull <- p:
			default: // more of them say nothing new
			}
		}
		if err != nil {
			_ = l.from.Close()
			return
		}
	}
}

// letGo tells the holder that it can end, with the session's status. One that has died
// meanwhile needs no word: the session goes on.
func (l *leash) letGo(st control.Status) {
	l.loose.Store(true) // first: the holder may end at once
	_ = json.NewEncoder(l.to).Encode(st)
	_ = l.to.Close()
}

func (l *leash) close() {
	if l == nil {
		return
	}
	_, _ = l.from.Close(), l.to.Close() // it ends the reading
	<-l.done
}

// killedError says that somebody has killed the process of a session that this one holds.
type killedError struct {
	how  string // the signal
	code int    // what a shell shows for it
}

func (e *killedError) Error() string { return "the session's process was ended by a signal: " + e.how }
