package listening

import (
	"bufio"
	"net"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// A shell that has connected to us, in a group of its own, and one that has not.
func TestTheConnectionsOfAGroup(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	run := func(script string) (group int) {
		c := exec.Command("bash", "-c", script)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			_ = c.Wait()
		})
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatal(line, err)
		}
		return c.Process.Pid
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	caller := run("exec 5<>/dev/tcp/127.0.0.1/" + port + "; echo ready; read -r _")
	idle := run("echo ready; read -r _")
	to, names := Outgoing(caller)
	if len(to) != 1 || to[0].String() != ln.Addr().String() || !slices.Equal(names, []string{"bash"}) {
		t.Errorf("%v %v, want %v", to, names, ln.Addr())
	}
	if to, names := Outgoing(idle); len(to) != 0 || !slices.Equal(names, []string{"bash"}) {
		t.Errorf("one without connections: %v %v", to, names)
	}
	// Our own end of it is a server's.
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if to, _ := Outgoing(syscall.Getpgrp()); slices.Contains(to, conn.RemoteAddr().(*net.TCPAddr).AddrPort()) {
		t.Errorf("a connection that came in is taken for one that was made: %v", to)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1D32":                         "127.0.0.1:7474",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
		"00000000000000000000000001000000:0050": "[::1]:80",
	} {
		if at, ok := address(text); !ok || at.String() != want {
			t.Errorf("%s: %v %v, want %s", text, at, ok, want)
		}
	}
	for _, text := range []string{"", "x:1", "0100007F:", "01:1"} {
		if at, ok := address(text); ok {
			t.Errorf("%q: %v", text, at)
		}
	}
}
