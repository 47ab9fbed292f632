// Package quiet keeps a library from asking the terminal a question when the
// program starts. Bubble Tea v1 asks for the background colour in its init
// function: each command of lane, be it only lane version, would write an escape
// sequence to the terminal and wait for the answer, five seconds where the
// terminal gives none, and eat what the user typed meanwhile. The library does
// not ask where the variable CI is set; this package sets it before that init
// runs, and Restore puts back what was there. It does nothing else.
//
// The order is the language's: packages are initialised sorted by import path as
// soon as all that they import is. This one imports os alone, and the library
// imports os/exec and more, so this one is first. Do not add imports.
package quiet

import "os"

// before is what the variable was, and whether it was there at all.
var before, was = hide()

func hide() (string, bool) {
	v, ok := os.LookupEnv("CI")
	if v == "" {
		os.Setenv("CI", "1")
	}
	return v, ok
}

// Restore puts the environment back. To be called once, in the init function of
// the package that imports the library.
func Restore() {
	switch {
	case !was:
		os.Unsetenv("CI")
	case before == "":
		os.Setenv("CI", "")
	}
}
