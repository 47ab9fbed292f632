// Package compare says in what two answers to the same request differ: status,
// headers, and the body, JSON by path. It is pure: it sends nothing and never
// prints.
package compare
