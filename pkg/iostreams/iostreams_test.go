package iostreams

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWantColor(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		tty  bool
		want bool
	}{
		{"terminal", nil, true, true},
		{"no terminal", nil, false, false},
		{"NO_COLOR on a terminal", map[string]string{"NO_COLOR": "1"}, true, false},
		{"NO_COLOR of any value", map[string]string{"NO_COLOR": "0"}, true, false},
		{"empty NO_COLOR is unset", map[string]string{"NO_COLOR": ""}, true, true},
		{"forced off a terminal", map[string]string{"CLICOLOR_FORCE": "1"}, false, true},
		{"force of 0 is none", map[string]string{"CLICOLOR_FORCE": "0"}, false, false},
		{"NO_COLOR beats force", map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, false, false},
		{"dumb terminal", map[string]string{"TERM": "dumb"}, true, false},
		{"other terminal", map[string]string{"TERM": "xterm-256color"}, true, true},
		{"CLICOLOR off", map[string]string{"CLICOLOR": "0"}, true, false},
		{"CLICOLOR on, no terminal", map[string]string{"CLICOLOR": "1"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := wantColor(func(k string) string { return c.env[k] }, c.tty); got != c.want {
				t.Errorf("wantColor = %v, want %v", got, c.want)
			}
		})
	}
}

func TestStreamsOfTestAreNoTerminal(t *testing.T) {
	s, in, out, errOut := Test()
	if s.IsStdinTTY || s.IsStdoutTTY || s.IsStderrTTY || s.Color || s.ErrColor || s.CanDraw() || s.CanAsk() {
		t.Errorf("Test() claims a terminal: %+v", s)
	}
	if s.In != in || s.Out != out || s.Err != errOut || s.Width != DefaultWidth {
		t.Errorf("Test() returns other buffers than it uses, or no width: %+v", s)
	}
}

func TestCanDraw(t *testing.T) {
	s := &IOStreams{IsStdinTTY: true, IsStdoutTTY: true}
	if !s.CanDraw() {
		t.Error("a terminal in and out cannot be drawn on")
	}
	for _, not := range []*IOStreams{
		{IsStdinTTY: true}, {IsStdoutTTY: true}, {IsStdinTTY: true, IsStdoutTTY: true, Dumb: true},
	} {
		if not.CanDraw() {
			t.Errorf("%+v can be drawn on", not)
		}
	}
}

func TestAFileIsNoTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if isTerminal(f) {
		t.Error("a file counts as a terminal")
	}
}

func TestSystem(t *testing.T) {
	s := System()
	if s.In == nil || s.Out == nil || s.Err == nil || s.Width < 1 {
		t.Errorf("System() = %+v", s)
	}
}
