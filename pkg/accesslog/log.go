package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/traffic"
)

const (
	batch = 512 // exchanges that are taken, and written, at a time
	// gather is how long lines wait for others: to write each by itself costs more
	// than to make it. The log that is read holds thousands.
	gather   = 10 * time.Millisecond
	stopWait = 5 * time.Second
)

// Options are where the lines go.
type Options struct {
	// Path is a file to append to, made for its owner alone; empty: Out.
	Path   string
	Out    io.Writer
	Logger *slog.Logger // nil: discards
	Now    func() time.Time
}

// Log writes the lines of exchanges.
type Log struct {
	o    Options
	lost atomic.Uint64

	mu   sync.Mutex // for the file, which is changed by Reopen
	file *os.File   // nil: Out
	buf  []byte
	// broken is set while writing fails, so that it is said once.
	broken bool
}

// Open opens the file, if there is to be one. Run writes, and closes it.
func Open(o Options) (*Log, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{o: o}
	if o.Path == "" {
		if o.Out == nil {
			return nil, errors.New("access log: neither a file nor a writer")
		}
		return l, nil
	}
	var err error
	l.file, err = open(o.Path)
	return l, err
}

func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("access log: %w", err)
	}
	return f, nil
}

// Reopen opens the file again, because the one that was there has been moved
// away. If that fails, the old one stays in use.
func (l *Log) Reopen() error {
	if l.o.Path == "" {
		return nil
	}
	// No line is written meanwhile: one that came when the new file was there to see
	// would still stand in the old one.
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := open(l.o.Path)
	if err != nil {
		return err
	}
	old := l.file
	l.file = f
	if old == nil {
		return errors.Join(f.Close(), errors.New("access log: it has ended"))
	}
	return old.Close()
}

// Lost is how many exchanges could not be written: they went by too fast, or
// writing failed.
func (l *Log) Lost() uint64 { return l.lost.Load() }

// Run writes every exchange of from until ctx ends, and then what is there, for
// 5 s at most. While writing fails Run goes on: requests are not to end for a full
// disk.
func (l *Log) Run(ctx context.Context, from *traffic.Log) error {
	var after uint64
	rows := make([]traffic.Exchange, 0, batch)
	pause := time.NewTimer(gather)
	defer pause.Stop()
	for {
		some, lost, err := from.AppendNext(ctx, rows, after, batch)
		if err != nil {
			break
		}
		after += lost + uint64(len(some))
		l.write(some, lost)
		if len(some) == batch {
			continue
		}
		pause.Reset(gather)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	end := time.Now().Add(stopWait)
	for last := from.Last(); after < last && time.Now().Before(end); {
		some, lost := from.AppendSince(rows, after, batch)
		after += lost + uint64(len(some))
		l.write(some, lost)
	}
	return l.close()
}

func (l *Log) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// write writes the lines of exchanges, and before them how many are missing.
func (l *Log) write(rows []traffic.Exchange, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = l.buf[:0]
	if lost > 0 {
		l.lost.Add(lost)
		l.buf = appendLost(l.buf, l.o.Now(), lost)
	}
	for i := range rows {
		l.buf = appendLine(l.buf, &rows[i])
	}
	out := l.o.Out
	if l.file != nil {
		out = l.file
	}
	_, err := out.Write(l.buf)
	switch {
	case err == nil:
		l.broken = false
	default:
		l.lost.Add(uint64(len(rows)))
		if !l.broken {
			l.o.Logger.Error("the access log cannot be written", "error", err)
		}
		l.broken = true
	}
}
