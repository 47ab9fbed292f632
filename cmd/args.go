package cmd

import (
	"strings"

	"lane/pkg/nearest"

	"github.com/spf13/cobra"
)

// takes are the arguments that a command takes: FILE is one, [FILE] one that may be
// left out, and USER... one or more.
func takes(words ...string) cobra.PositionalArgs {
	least, most := 0, len(words)
	for _, w := range words {
		if !strings.HasPrefix(w, "[") {
			least++
		}
		if strings.HasSuffix(strings.TrimSuffix(w, "]"), "...") {
			most = -1 // any number
		}
	}
	plain := strings.NewReplacer("[", "", "]", "")
	return func(c *cobra.Command, args []string) error {
		hint := "usage: " + c.UseLine()
		switch {
		case len(args) < least:
			return usagef(hint, "%s: there is no %s", c.CommandPath(), strings.TrimSuffix(words[len(args)], "..."))
		case most == 0 && len(args) > 0:
			return usagef(hint, "%s takes no argument, and %q is one", c.CommandPath(), args[0])
		case most > 0 && len(args) > most:
			return usagef(hint, "%s takes %s alone, and %q is one more", c.CommandPath(), plain.Replace(strings.Join(words, " ")), args[most])
		}
		return nil
	}
}

// subcommands are the arguments of a command that only has others below it.
func subcommands(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "`" + c.CommandPath() + " --help` lists the commands"
	var all []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			all = append(all, sub.Name())
		}
	}
	if near := meant(args[0], all); near != "" {
		hint = "did you mean " + c.CommandPath() + " " + near + "?"
	}
	return usagef(hint, "there is no command %q", strings.TrimPrefix(c.CommandPath()+" "+args[0], "lane "))
}

// meant is the one of names that somebody has probably meant: misspelled, or cut
// short. "" is none.
func meant(word string, names []string) string {
	if near := nearest.Word(word, names); near != "" || word == "" {
		return near
	}
	for _, n := range names {
		if strings.HasPrefix(n, word) {
			return n
		}
	}
	return ""
}
