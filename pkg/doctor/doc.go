// Package doctor says what is wrong around lane, and what to do about it: each check is
// a function from facts to findings. It never asks the network, the registry or the
// system for a fact: whoever calls it brings them.
package doctor
