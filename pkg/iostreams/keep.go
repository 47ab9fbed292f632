package iostreams

import (
	"io"
	"os"

	"golang.org/x/term"
)

// leftOn ends what a full-screen program that was killed has left on: bold and colors,
// the brackets around a paste, the hidden cursor, the other screen.
const leftOn = "\x1b[0m\x1b[?2004l\x1b[?25h\x1b[?1049l"

// Keep remembers how the terminal is. The function that it returns makes it so again
// after another program has drawn on it and died.
func (s *IOStreams) Keep() (restore func()) {
	in, ok := s.In.(*os.File)
	if !ok || !s.CanDraw() {
		return func() {}
	}
	was, err := term.GetState(int(in.Fd()))
	if err != nil {
		return func() {}
	}
	return func() {
		_ = term.Restore(int(in.Fd()), was) // it may be gone
		_, _ = io.WriteString(s.Out, leftOn)
	}
}
