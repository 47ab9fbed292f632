package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"lane/pkg/traffic"
)

// What cannot be a target is said with what is wrong in it, and what to do.
func TestABadTargetIsNamed(t *testing.T) {
	s := newShop(t, nil)
	for line, want := range map[string][]string{
		"CONNECT order-service":     {"CONNECT order-service names no port", "CONNECT order-service:80"},
		"CONNECT order-service:abc": {`CONNECT names "order-service:abc"`, "a port that is a number"},
		"GET x":                     {`"x" is neither a path`, "http://order-service/x"},
		"GET http://a:b/":           {`"http://a:b/" is no URL`, "port"},
		"GET ftp://order-service/":  {"cannot proxy the scheme ftp", "http:// and https://"},
	} {
		_, br := raw(t, s.addr, line+" HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var p struct{ Code, Message, Hint string }
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || resp.StatusCode != http.StatusBadRequest || p.Hint == "" {
			t.Errorf("%s: %d %+v %v", line, resp.StatusCode, p, err)
		}
		_ = resp.Body.Close()
		for _, w := range want {
			if !strings.Contains(p.Message+"\n"+p.Hint, w) {
				t.Errorf("%s: %+v, want %q in it", line, p, w)
			}
		}
	}
	// The same with what is right in them.
	for _, line := range []string{"GET http://order-service/%zz", "GET ws://order-service/"} {
		_, br := raw(t, s.addr, line+" HTTP/1.1\r\nHost: order-service\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil || !strings.HasPrefix(resp.Header.Get("X-Lane-Decision"), "LANE_MATCH") { // what the server says of it is its affair
			t.Fatalf("%s: %v %v", line, resp, err)
		}
		_ = resp.Body.Close()
	}
}

// A CONNECT inside a tunnel is for a proxy behind: the tunnel is not read.
func TestAConnectInsideATunnel(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		defer func() { _ = conn.Close() }()
		b := make([]byte, len("CONNECT a:1 "))
		_, _ = io.ReadFull(conn, b)
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n")
		got <- string(b)
	}()
	defer func() { _ = ln.Close() }()
	s := newShop(t, nil)
	s.reg.set(service("mirror", instance("m", ln.Addr().String(), "")))
	conn, br, _ := connectTo(t, s.env, "mirror:80")
	a := through(t, conn, br, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n")
	if a.status != 200 || a.header.Get("X-Lane-Decision") != "" {
		t.Errorf("%+v", a)
	}
	if b := <-got; b != "CONNECT a:1 " {
		t.Errorf("the server got %q", b)
	}
	conn.Close()
	if ex := s.exchange(1); ex.Method != "CONNECT" || ex.Note != noteTunnel || ex.Front != traffic.FrontForward {
		t.Errorf("%+v", ex)
	}
}
