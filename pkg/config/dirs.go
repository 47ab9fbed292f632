package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// System is what the places of this program's files depend on.
type System struct {
	Getenv func(string) string
	GOOS   string // as runtime.GOOS
	Home   string // the user's home directory; may be empty
	Temp   string // as os.TempDir()
	UID    int    // as os.Getuid(): -1 on Windows
	// IsFile tells of a path whether there is something that is no directory; nil: it is
	// not asked.
	IsFile func(path string) bool
}

// UserFile is the user's own settings file, given os.UserConfigDir(); empty
// where there is no such directory.
func UserFile(configDir string) string {
	if configDir == "" {
		return ""
	}
	return filepath.Join(configDir, "lane", FileName)
}

// StateDir is where this program keeps what has to outlive a session: the
// install id, logs, records of sessions. LANE_STATE_DIR names another place.
func StateDir(s System) (string, error) {
	if d := s.Getenv("LANE_STATE_DIR"); d != "" {
		return s.place("LANE_STATE_DIR", d)
	}
	// A relative path in one of the XDG variables is to be ignored, says their
	// specification.
	if d := s.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return s.place("XDG_STATE_HOME", d, "lane")
	}
	switch s.GOOS {
	case "windows":
		if d := s.Getenv("LocalAppData"); d != "" {
			return s.place("LocalAppData", d, "lane")
		}
		return "", errors.New("no place for state: neither LANE_STATE_DIR nor LocalAppData is set")
	case "darwin":
		if s.Home != "" {
			return filepath.Join(s.Home, "Library", "Application Support", "lane"), nil
		}
	default:
		if s.Home != "" {
			return filepath.Join(s.Home, ".local", "state", "lane"), nil
		}
	}
	return "", errors.New("no place for state: there is no home directory; set LANE_STATE_DIR")
}

// RuntimeDir is where the sockets of running sessions are. LANE_RUNTIME_DIR
// names another place.
func RuntimeDir(s System) (string, error) {
	if d := s.Getenv("LANE_RUNTIME_DIR"); d != "" {
		return s.place("LANE_RUNTIME_DIR", d)
	}
	if d := s.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return s.place("XDG_RUNTIME_DIR", d, "lane")
	}
	if s.GOOS == "windows" { // each user has a Temp of their own
		return filepath.Join(s.Temp, "lane"), nil
	}
	return filepath.Join(s.Temp, fmt.Sprintf("lane-%d", s.UID)), nil
}

// DirError says that a variable names no place that this program can use.
type DirError struct{ Name, Why string }

func (e *DirError) Error() string { return e.Name + ": " + e.Why }

// place is the directory that a variable names, and what is below it. A relative one is
// refused: each directory would have sessions of its own, which none of the others could
// see or end. So is a file: whoever set the variable has not meant it, and is not to be
// told to remove it.
func (s System) place(name, dir string, below ...string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", &DirError{name, fmt.Sprintf("%q is not a full path: each directory would have another one", dir)}
	}
	whole := filepath.Join(append([]string{dir}, below...)...)
	for _, p := range []string{filepath.Clean(dir), whole} {
		if s.IsFile != nil && s.IsFile(p) {
			return "", &DirError{name, p + " is a file and no directory: set it to a directory of your own"}
		}
	}
	return whole, nil
}

// CheckRuntimeDir says so when the sockets of sessions in dir would have paths that are
// too long, before anything is made.
func CheckRuntimeDir(dir string) error {
	_, err := SocketPath(dir, "4194304.sock.new")
	return err
}

// MakePrivate makes dir, for this user alone, and checks that it is: in a
// directory that all share, another user may have made it first and would own
// every socket in it. A symbolic link is refused.
func MakePrivate(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("make private directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make private directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("make private directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a %s and no directory: remove it", dir, kindOfFile(info.Mode()))
	}
	return ownAndPrivate(dir, info)
}

func kindOfFile(m fs.FileMode) string {
	if m&fs.ModeSymlink != 0 {
		return "symbolic link"
	}
	return "file"
}

// maxSocket is the longest path of a unix socket that works everywhere: macOS
// has 104 bytes, the last for a zero.
const maxSocket = 103

// SocketPath joins dir and name, and says so when the system would refuse the
// path as too long.
func SocketPath(dir, name string) (string, error) {
	p := filepath.Join(dir, name)
	if len(p) > maxSocket {
		return "", &DirError{"LANE_RUNTIME_DIR", fmt.Sprintf("socket path %s is longer than %d bytes; set it to a shorter directory", p, maxSocket)}
	}
	return p, nil
}

// InstallFile is the file of the install id, in the directory for state.
const InstallFile = "install-id"

// installBytes is the size of an install id; it is written in hex.
const installBytes = 8

// InstallID returns the id of this installation, which is part of every
// instance's ID, and makes one in stateDir at first. It is random, so that it
// tells nothing of the machine, and stable, so that a session after a crash
// knows its own registrations.
func InstallID(stateDir string) (string, error) {
	path := filepath.Join(stateDir, InstallFile)
	id, err := readID(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return "", fmt.Errorf("make install id: %w", err)
	}
	var b [installBytes]byte
	rand.Read(b[:]) // never fails, says its doc
	// Written aside and linked into place: of two first runs one wins, and
	// neither reads half a file.
	tmp, err := os.CreateTemp(stateDir, InstallFile+"-*") // 0600
	if err != nil {
		return "", fmt.Errorf("make install id: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(hex.EncodeToString(b[:]) + "\n")
	if err := errors.Join(err, tmp.Close()); err != nil {
		return "", fmt.Errorf("make install id: %w", err)
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		// A file system without hard links.
		if err := os.Rename(tmp.Name(), path); err != nil {
			return "", fmt.Errorf("make install id: %w", err)
		}
	}
	return readID(path)
}

func readID(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read install id: %w", err)
	}
	id := strings.TrimSpace(string(b))
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != installBytes {
		return "", fmt.Errorf("read install id: %s does not hold one; remove the file, and a new one is made", path)
	}
	return id, nil
}
