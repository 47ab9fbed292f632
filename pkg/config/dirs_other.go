//go:build !unix

package config

import "io/fs"

// ownAndPrivate is true by the place: a user's directory on Windows is closed
// to other users by its inherited access list.
func ownAndPrivate(string, fs.FileInfo) error { return nil }
