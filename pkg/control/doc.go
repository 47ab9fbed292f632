// Package control is the local API of a session: its status, its exchanges and
// its end, over a socket that only this user can reach. It never routes a
// request and never touches the registry.
package control
