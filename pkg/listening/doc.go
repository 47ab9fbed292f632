// Package listening says which process of this machine listens on a port, and to whom
// a group of processes has connected, as far as the system lets this user know. It
// opens and changes nothing.
package listening
