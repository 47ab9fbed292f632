// Package config reads every setting once, into one validated value that says
// of each where it comes from: flags, the environment, lane.yaml of the
// repository, the user's own lane.yaml, defaults, in this order. It also knows
// where this program keeps its files. It never holds a secret, only names of
// files that do, and never asks the network.
package config
