//go:build unix && !linux

package child

// follow does nothing where a stop cannot be seen without reaping the command:
// there Ctrl-Z stops the command alone.
func (t *terminal) follow(int) <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
