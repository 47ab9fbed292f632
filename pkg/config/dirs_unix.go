//go:build unix

package config

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ownAndPrivate checks that a directory is this user's and nobody else's.
func ownAndPrivate(dir string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to you: remove it, or choose another place", dir, st.Uid)
	}
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return fmt.Errorf("%s is open to others (mode %#o): chmod 700 it, or choose another place", dir, m)
	}
	return nil
}
