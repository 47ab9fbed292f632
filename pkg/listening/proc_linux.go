package listening

import (
	"bufio"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// Holder names the process that listens on a port, "" if nobody does or it cannot be
// told.
func Holder(port int) string { return holder("/proc", port) }

func holder(proc string, port int) string {
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		inode, uid, ok := listener(filepath.Join(proc, table), port)
		if !ok {
			continue
		}
		if name := process(proc, inode); name != "" {
			return name
		}
		// The files of other people's processes are theirs alone.
		if u, err := user.LookupId(uid); err == nil {
			return "a process of user " + u.Username
		}
		return "a process of user " + uid
	}
	return ""
}

// stateListen is how the tables of the kernel call a socket that listens.
const stateListen = "0A"

// listener finds the socket that listens on a port in one of the kernel's tables.
func listener(path string, port int) (inode, uid string, ok bool) {
	file, err := os.Open(path)
	if err != nil {
		return "", "", false
	}
	defer func() { _ = file.Close() }() // only read
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != stateListen {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
			return f[9], f[7], true
		}
	}
	return "", "", false
}

// process names the process that has a socket.
func process(proc, inode string) string {
	fds, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return ""
	}
	want := "socket:[" + inode + "]"
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err != nil || to != want {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		pid := filepath.Base(dir)
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			return "process " + pid
		}
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), pid)
	}
	return ""
}
