package listening

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// stateOpen is how the tables of the kernel call an established connection.
const stateOpen = "01"

// ended is the state of a connection that only waits for its last packets, between the
// columns beside it.
var ended = []byte(" 06 ")

// Outgoing are the addresses to which the processes of a group have open TCP
// connections that they have made themselves, and the processes' names.
func Outgoing(group int) (to []netip.AddrPort, names []string) {
	return outgoing("/proc", func(all []proc) (those []proc) {
		return slices.DeleteFunc(all, func(p proc) bool { return p.group != group })
	})
}

// OutgoingOf is Outgoing for a process and those that it has started, and they.
func OutgoingOf(pid int) (to []netip.AddrPort, names []string) {
	return outgoing("/proc", func(all []proc) []proc {
		family := map[int]bool{pid: true}
		for grown := true; grown; {
			grown = false
			for _, p := range all {
				if family[p.parent] && !family[p.pid] {
					family[p.pid], grown = true, true
				}
			}
		}
		return slices.DeleteFunc(all, func(p proc) bool { return !family[p.pid] })
	})
}

// proc is one process.
type proc struct {
	pid, parent, group int
	name               string
}

// processes are all that there are.
func processes(root string) (all []proc) {
	dirs, _ := os.ReadDir(root)
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, dir.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// pid (comm) state ppid pgrp ...; comm may hold anything
		_, head, _ := strings.Cut(string(b), "(")
		end := strings.LastIndexByte(head, ')')
		if end < 0 {
			continue
		}
		f := strings.Fields(head[end+1:])
		if len(f) < 3 {
			continue
		}
		p := proc{name: head[:end], pid: pid}
		p.parent, _ = strconv.Atoi(f[1])
		p.group, _ = strconv.Atoi(f[2])
		all = append(all, p)
	}
	return all
}

func outgoing(root string, which func([]proc) []proc) (to []netip.AddrPort, names []string) {
	sockets := map[string]bool{}
	for _, p := range which(processes(root)) {
		if !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
		dir := filepath.Join(root, strconv.Itoa(p.pid), "fd")
		fds, _ := os.ReadDir(dir)
		for _, fd := range fds {
			if at, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(at, "socket:[") {
				sockets[strings.TrimSuffix(strings.TrimPrefix(at, "socket:["), "]")] = true
			}
		}
	}
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		to = append(to, connections(filepath.Join(root, table), sockets)...)
	}
	return to, names
}

// connections are the other ends of those sockets of a table that are connected, and
// whose own port nobody listens on: a caller's end, not a server's.
func connections(path string, sockets map[string]bool) (to []netip.AddrPort) {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // only read
	served := map[string]bool{}
	type open struct{ port, remote string }
	var all []open
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		if bytes.Contains(lines.Bytes(), ended) {
			continue // of these there are thousands after a load, and they are nobody's
		}
		f := strings.Fields(lines.Text())
		if len(f) < 10 {
			continue
		}
		_, port, _ := strings.Cut(f[1], ":")
		switch {
		case f[3] == stateListen:
			served[port] = true
		case f[3] == stateOpen && sockets[f[9]]:
			all = append(all, open{port, f[2]})
		}
	}
	for _, o := range all {
		if at, ok := address(o.remote); ok && !served[o.port] {
			to = append(to, at)
		}
	}
	return to
}

// address reads an address as the kernel's tables have it: in words of 32 bits, each in
// the machine's own order.
func address(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	ip, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), ok
}
