// Package child runs one command in a process group of its own, gives it the
// terminal if there is one, and ends the whole group. It never reads what the
// command prints.
package child
