package iostreams

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
)

// ErrReaderGone is the error of a write to Out or Err whose reader has closed its
// end, as head does when it has seen enough. See IOStreams.OnReaderGone.
var ErrReaderGone = errors.New("whoever read the output is gone")

// OnReaderGone has gone called when a write to Out or Err finds that nobody reads it
// any more; the write fails with ErrReaderGone. It may be called often, and from any
// goroutine. A terminal has no such end, and stays as it is.
func (s *IOStreams) OnReaderGone(gone func()) {
	if f, ok := s.Out.(*os.File); ok && !s.IsStdoutTTY {
		s.Out = &piped{f, gone}
	}
	if f, ok := s.Err.(*os.File); ok && !s.IsStderrTTY {
		s.Err = &piped{f, gone}
	}
}

// ForChild is the stream as another process inherits it: the file itself, and not
// a pipe that this process would have to empty.
func ForChild(w io.Writer) io.Writer {
	if p, ok := w.(*piped); ok {
		return p.to
	}
	return w
}

type piped struct {
	to   *os.File
	gone func()
}

func (p *piped) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if err != nil && readerGone(err) {
		p.gone()
		err = ErrReaderGone
	}
	return n, err
}

// readerGone knows Windows' own names for it: ERROR_BROKEN_PIPE and ERROR_NO_DATA
// (winerror.h).
func readerGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) ||
		runtime.GOOS == "windows" && (errors.Is(err, syscall.Errno(109)) || errors.Is(err, syscall.Errno(232)))
}
