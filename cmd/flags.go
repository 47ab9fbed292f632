package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagValue is a flag whose value is read where it is given: a wrong one is told
// before anything is done, in one way for all flags of all commands.
type flagValue[T any] struct {
	read kind[T]
	keep func(T)
	text string // as it was given; the default, as the help has it
}

func (v *flagValue[T]) String() string { return v.text }
func (v *flagValue[T]) Type() string   { return v.read.word }

func (v *flagValue[T]) Set(text string) error {
	got, err := v.read.of(text)
	if err == nil {
		v.keep(got)
		v.text = text
	}
	return err
}

// kind is a kind of values of flags: its word in the help, and how it is read. What
// is wrong with a text says the error, with the text in it, unless it is secret.
type kind[T any] struct {
	word string
	of   func(string) (T, error)
}

// addFlag adds a flag to a command; def is its default as a user would write it, empty
// for none. A letter behind a comma is its short form.
func addFlag[T any](c *cobra.Command, to *T, name, def string, read kind[T], usage string) {
	v := &flagValue[T]{read: read, keep: func(got T) { *to = got }}
	if def != "" {
		if err := v.Set(def); err != nil {
			panic(fmt.Sprintf("the default of --%s: %v", name, err))
		}
	}
	long, short, _ := strings.Cut(name, ",")
	c.Flags().VarP(v, long, short, usage)
}

// addFlags is addFlag for one that may be given several times.
func addFlags[T any](c *cobra.Command, to *[]T, name string, read kind[T], usage string) {
	v := &flagValue[T]{read: read, keep: func(got T) { *to = append(*to, got) }}
	long, short, _ := strings.Cut(name, ",")
	c.Flags().VarP(v, long, short, usage+"; may be repeated")
}

// badFlag says in lane's own words what is wrong with a command's flags.
func badFlag(c *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
		all     []string
	)
	hint := "`" + c.CommandPath() + " --help` shows what it takes"
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			if name != "" && name[0] >= '0' && name[0] <= '9' { // -1 was meant as a number
				return usagef("usage: "+c.UseLine(), "%s takes no number below 0, and -%s is one", c.CommandPath(), short)
			}
			return usagef(hint, "%s has no flag -%s", c.CommandPath(), name)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
		if near := meant(name, all); near != "" {
			hint = "did you mean --" + near + "?"
		}
		return usagef(hint, "%s has no flag --%s", c.CommandPath(), name)
	case errors.As(err, &missing):
		word, _ := pflag.UnquoteUsage(missing.GetFlag())
		return usagef(hint, "--%s: there is no %s behind it", missing.GetFlag().Name, word)
	case errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "bool":
		return usagef("a flag that is given holds; =false switches it off", "--%s: %q is neither true nor false", invalid.GetFlag().Name, invalid.GetValue())
	case errors.As(err, &invalid):
		var own *usageError
		if errors.As(err, &own) { // it has its own way out
			hint = own.hint
		}
		return usagef(hint, "--%s: %v", invalid.GetFlag().Name, invalid.Unwrap())
	case errors.As(err, &syntax):
		return usagef(hint, "%q is no flag", syntax.GetSpecifiedFlag())
	}
	return usagef(hint, "%v", err)
}
