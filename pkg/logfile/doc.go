// Package logfile is a log file of bounded size, with a few older ones beside it. It
// starts no goroutine, and never loses a line to make room for another one's file.
package logfile
