//go:build unix

package guardian

import "golang.org/x/sys/unix"

func unixSid(pid int) (int, error) { return unix.Getsid(pid) }
