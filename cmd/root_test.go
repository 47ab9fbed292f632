package cmd

import (
	"bytes"
	"testing"

	"lane/pkg/iostreams"
)

// A command that is made alone is the one that is made with all others: it has its
// name, and its help says the same.
func TestCommandAloneIsTheSame(t *testing.T) {
	f := &factory{io: &iostreams.IOStreams{}, getenv: func(string) string { return "" }}
	help := func(from, name string) string {
		root := newRootCmd(f, from)
		if alone := len(root.Commands()) == 1; alone != (from == name) {
			t.Errorf("%q makes %d commands", from, len(root.Commands()))
		}
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs([]string{name, "--help"})
		if err := root.Execute(); err != nil {
			t.Errorf("lane %s --help: %v", name, err)
		}
		return out.String()
	}
	n := 0
	for _, c := range newRootCmd(f, "").Commands() {
		if n++; c.Name() == "help" || c.Name() == "completion" { // which are never alone
			continue
		}
		if all, alone := help("", c.Name()), help(c.Name(), c.Name()); all != alone || all == "" {
			t.Errorf("lane %s --help:\n%s\nwith all others:\n%s", c.Name(), alone, all)
		}
	}
	if n < 20 {
		t.Errorf("%d commands", n)
	}
	for _, none := range []string{"help", "vers", "--version", "completion", "UP"} {
		if got := len(newRootCmd(f, none).Commands()); got != n {
			t.Errorf("%q makes %d commands, want all %d", none, got, n)
		}
	}
}
