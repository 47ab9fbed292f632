// Package childenv makes the environment of a process whose calls go through a
// lane's proxy, and writes variables in the syntax of a shell or a file so that
// they come back byte for byte. It never reads the environment of this process
// and never starts one.
package childenv
