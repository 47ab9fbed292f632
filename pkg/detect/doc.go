// Package detect looks at a service's source directory and says what a first
// lane.yaml should hold: the service's name, the port, and the preset whose
// header the service's framework passes on by itself. It never runs anything,
// never writes, and reads only through the file system that it is given.
package detect
