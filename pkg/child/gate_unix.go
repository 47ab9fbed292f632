//go:build unix

package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The two ends that a gate inherits, behind the three standard files.
const (
	gateWord = 3 // a byte: go on; its end: do not
	gateWhy  = 4 // why it could not become the command
)

// gate is what holds a command back, on the starter's side.
type gate struct {
	word *os.File // written to by Go
	why  *os.File // read by Go
	ends []*os.File
}

// close closes the starter's ends: a gate that nobody has told to go on ends.
func (g *gate) close() {
	_, _ = g.word.Close(), g.why.Close() // they hold nothing back
}

// started closes the gate's own ends here.
func (g *gate) started() {
	for _, f := range g.ends {
		_ = f.Close() // the gate has its own
	}
}

// hold makes cmd one that waits at the program's gate first.
func hold(cmd *exec.Cmd, program []string) (*gate, error) {
	if cmd.Err != nil {
		return nil, cmd.Err // it is not there
	}
	// A path is not looked for by exec.Command, and the gate, which is there, would start.
	path := cmd.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path)
		if !strings.ContainsRune(path, filepath.Separator) {
			path = "." + string(filepath.Separator) + path
		}
	}
	if _, err := exec.LookPath(path); err != nil {
		return nil, err
	}
	inWord, word, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	why, outWhy, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inWord.Close(), word.Close())
	}
	cmd.Args = append(append(append([]string(nil), program...), cmd.Path), cmd.Args...)
	cmd.Path = program[0]
	cmd.ExtraFiles = []*os.File{inWord, outWhy}
	return &gate{word: word, why: why, ends: cmd.ExtraFiles}, nil
}

// open lets the command begin, and returns when it has: nil, or why it cannot.
func (g *gate) open() error {
	defer g.close()
	if _, err := g.word.Write([]byte{'\n'}); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err // one whose gate has ended by a signal says so itself
	}
	why, err := io.ReadAll(g.why)
	if err != nil {
		return err
	}
	if len(why) > 0 {
		return errors.New(string(why))
	}
	return nil
}

// Pass is a gate: the process that Spec.Gate names. It waits until Go is called, and
// becomes the command then: args are its path, and its own arguments from the name on.
// It returns when the starter has died, or with an error.
func Pass(args []string) error {
	if len(args) < 2 {
		return errors.New("no command")
	}
	word, why := os.NewFile(gateWord, "word"), os.NewFile(gateWhy, "why")
	for _, fd := range []int{gateWord, gateWhy} { // the command gets neither
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return fmt.Errorf("this is for lane itself: %w", err)
		}
	}
	if n, err := word.Read(make([]byte, 1)); n == 0 {
		if errors.Is(err, io.EOF) {
			return nil // nobody knows of it: it must not begin
		}
		return err
	}
	err := syscall.Exec(args[0], args[1:], os.Environ())
	if _, e := why.WriteString(err.Error()); e == nil {
		return ErrTold // the starter says it
	}
	return err
}
