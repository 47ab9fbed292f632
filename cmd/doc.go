// Package cmd is the command line: one file for each verb, with its options,
// its flags and its wiring, and one ladder from errors to exit codes. It decides
// nothing about requests.
package cmd
