// Package listening says which process of this machine listens on a port, as far as
// the system lets this user know. It opens and changes nothing.
package listening
