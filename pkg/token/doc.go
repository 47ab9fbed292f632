// Package token says who may claim what at a relay: it signs and reads grants, and
// decides whether one allows a user a service in a lane. It never asks a registry,
// opens a port or prints a token.
package token
