package logfile

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"
)

// File is a log that is being written. It is safe for concurrent use.
type File struct {
	path string
	max  int64
	keep int

	mu   sync.Mutex
	f    *os.File
	size int64
}

// Open opens path for appending, and makes it if it is not there. Before a write that
// would make it larger than maxSize bytes, it becomes path.1, path.1 becomes path.2 and so
// on up to keep older ones; the one after that is removed.
func Open(path string, maxSize int64, keep int) (*File, error) {
	l := &File{path: path, max: maxSize, keep: keep}
	return l, l.open()
}

func (l *File) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.size = f, st.Size()
	return nil
}

// Write appends b. One write is never parted, so one that is larger than the bound has
// a file of its own. A log that cannot be moved away is written on.
func (l *File) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(b)) > l.max {
		l.rotate()
	}
	n, err := l.f.Write(b)
	l.size += int64(n)
	return n, err
}

// rotate begins a new file. Where that fails, the old one goes on: a log that is too
// large is better than none.
func (l *File) rotate() {
	for i := l.keep; i > 0; i-- {
		err := os.Rename(old(l.path, i-1), old(l.path, i))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.size = 0 // not before as much again
			return
		}
	}
	if l.keep == 0 && os.Remove(l.path) != nil {
		l.size = 0
		return
	}
	before := l.f
	if l.open() != nil {
		l.f, l.size = before, 0
		return
	}
	_ = before.Close() // all of it is written
}

// Close closes the file.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}

// old is the nth older file of a log; 0 is the log itself.
func old(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}

// Remove removes a log and its older files. One that is not there is no error.
func Remove(path string) error {
	for i := 0; ; i++ {
		err := os.Remove(old(path, i))
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}
