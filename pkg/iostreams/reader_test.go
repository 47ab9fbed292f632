package iostreams

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAReaderThatIsGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	file, err := os.Create(filepath.Join(t.TempDir(), "err"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	gone := 0
	s := &IOStreams{Out: w, Err: file}
	s.OnReaderGone(func() { gone++ })
	if _, err := s.Out.Write([]byte("read\n")); err != nil || gone != 0 {
		t.Fatalf("while it is read: %v, called %d times", err, gone)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Out.Write([]byte("unread\n")); !errors.Is(err, ErrReaderGone) || gone != 1 {
		t.Errorf("unread: %v, called %d times", err, gone)
	}
	if _, err := s.Err.Write([]byte("a file\n")); err != nil || gone != 1 {
		t.Errorf("a file: %v, called %d times", err, gone)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Err.Write([]byte("closed\n")); err == nil || errors.Is(err, ErrReaderGone) || gone != 1 {
		t.Errorf("another error: %v, called %d times", err, gone)
	}
}

func TestAChildGetsTheFileItself(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	s, _, _, errOut := Test()
	s.Out = w
	s.OnReaderGone(func() {})
	if s.Out == w || ForChild(s.Out) != w {
		t.Errorf("%T, for a child %T", s.Out, ForChild(s.Out))
	}
	if ForChild(s.Err) != errOut {
		t.Errorf("one that is no file: %T", ForChild(s.Err))
	}
	s = &IOStreams{Out: w, IsStdoutTTY: true}
	s.OnReaderGone(func() {})
	if s.Out != w {
		t.Errorf("a terminal: %T", s.Out)
	}
}
