package iostreams

import (
	"bytes"
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// DefaultWidth is the width, in columns, where no terminal tells one.
const DefaultWidth = 80

// IOStreams is the streams of one run of the program. Results go to Out,
// everything else to Err.
type IOStreams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	IsStdinTTY  bool
	IsStdoutTTY bool
	IsStderrTTY bool

	// Color and ErrColor say whether to color what goes to Out and to Err.
	Color    bool
	ErrColor bool

	// Dumb says that the terminal cannot move its cursor: lines, no screens.
	Dumb bool

	// Width is the columns of Out's terminal, DefaultWidth without one.
	Width int
	// Height is the lines of Out's terminal, 0 without one.
	Height int
}

// System returns the streams of this process, and asks the terminal once.
func System() *IOStreams {
	s := &IOStreams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		IsStdinTTY:  isTerminal(os.Stdin),
		IsStdoutTTY: isTerminal(os.Stdout),
		IsStderrTTY: isTerminal(os.Stderr),
		Dumb:        os.Getenv("TERM") == "dumb",
		Width:       DefaultWidth,
	}
	// A console that cannot be told to read escape sequences shows them as text.
	s.Color = wantColor(os.Getenv, s.IsStdoutTTY && enableEscapes(os.Stdout))
	s.ErrColor = wantColor(os.Getenv, s.IsStderrTTY && enableEscapes(os.Stderr))
	if s.IsStdoutTTY {
		if w, h, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
			s.Width, s.Height = w, h
		}
	}
	return s
}

// Test returns streams that are no terminal, and the buffers behind them.
func Test() (s *IOStreams, in, out, errOut *bytes.Buffer) {
	in, out, errOut = &bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}
	return &IOStreams{In: in, Out: out, Err: errOut, Width: DefaultWidth}, in, out, errOut
}

// CanDraw says whether a full-screen program can run: somebody at a terminal
// that types and sees, and that can move its cursor.
func (s *IOStreams) CanDraw() bool { return s.IsStdinTTY && s.IsStdoutTTY && !s.Dumb }

// CanAsk says whether a question would reach a person who can answer it.
func (s *IOStreams) CanAsk() bool { return s.IsStdinTTY && s.IsStderrTTY }

// wantColor decides color for one stream; tty says whether it is a terminal
// that can show it. A person's NO_COLOR (https://no-color.org: any value but
// the empty one) beats everything, then CLICOLOR_FORCE, then what the terminal
// can do.
func wantColor(getenv func(string) string, tty bool) bool {
	if getenv("NO_COLOR") != "" {
		return false
	}
	if f := getenv("CLICOLOR_FORCE"); f != "" && f != "0" {
		return true
	}
	return tty && getenv("TERM") != "dumb" && getenv("CLICOLOR") != "0"
}

// isTerminal also takes the pipes by which Cygwin and MSYS stand in for one.
func isTerminal(f *os.File) bool {
	return isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd())
}
