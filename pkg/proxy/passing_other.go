//go:build !unix

package proxy

// passing reports whether accepting connections will work again by itself.
func passing(error) bool { return false }
