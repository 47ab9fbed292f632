package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// bareOrigin answers every head with 1 KiB, on one goroutine for a connection
// and without an allocation, so that a benchmark counts the engine's own.
func bareOrigin(b *testing.B) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	response := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: 1024\r\n\r\n" +
		string(bytes.Repeat([]byte("x"), 1024)))
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				br := bufio.NewReader(conn)
				for readHead(br) == nil {
					if _, err := conn.Write(response); err != nil {
						return
					}
				}
			}()
		}
	}()
	b.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// readHead skips to the end of a head.
func readHead(br *bufio.Reader) error {
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			return nil
		}
	}
}

var lengthIs = []byte("Content-Length: ")

// ask sends one request on a connection and reads its answer.
func ask(conn net.Conn, br *bufio.Reader, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	length := -1
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if bytes.HasPrefix(line, lengthIs) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthIs):]))); err != nil {
				return err
			}
		}
	}
	if length != 1024 {
		return fmt.Errorf("length %d", length)
	}
	_, err := br.Discard(length)
	return err
}

func run(b *testing.B, addr, request string) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		br, req := bufio.NewReader(conn), []byte(request)
		for pb.Next() {
			if err := ask(conn, br, req); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

const benchHead = " HTTP/1.1\r\nHost: svc\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"

func BenchmarkDirect(b *testing.B) { run(b, bareOrigin(b), "GET /a"+benchHead) }

func benchEnv(b *testing.B, instances int) (*env, string) {
	origin := bareOrigin(b)
	e := newEnv(b, func(c *Config) { c.Log = traffic.NewLog(10000) })
	in := []lane.Instance{instance("s", origin, "dev-alice")}
	for i := range instances - 1 {
		in = append(in, instance(fmt.Sprintf("b%d", i), fmt.Sprintf("10.0.%d.%d:80", i/256, i%256), ""))
	}
	e.reg.set(service("svc", in...))
	return e, origin
}

func BenchmarkForward(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			e, _ := benchEnv(b, n)
			run(b, e.addr, "GET http://svc/a"+benchHead)
		})
	}
}

func BenchmarkGuard(b *testing.B) {
	e, origin := benchEnv(b, 10)
	addr := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "s", Local: []string{origin}})
	run(b, addr, "GET /a HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n")
}

// BenchmarkDownload is 10 MiB through the engine.
func BenchmarkDownload(b *testing.B) {
	const size = 10 << 20
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				br := bufio.NewReader(conn)
				for readHead(br) == nil {
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
					for range size / len(chunk) {
						if _, err := conn.Write(chunk); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	e := newEnv(b, nil)
	e.reg.set(service("svc", instance("s", ln.Addr().String(), "dev-alice")))
	for _, at := range []struct{ name, addr, line string }{{"direct", ln.Addr().String(), "GET /"}, {"forward", e.addr, "GET http://svc/"}} {
		b.Run(at.name, func(b *testing.B) {
			conn, err := net.Dial("tcp", at.addr)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			br := bufio.NewReaderSize(conn, 64<<10)
			b.SetBytes(size)
			for b.Loop() {
				if _, err := io.WriteString(conn, at.line+benchHead); err != nil {
					b.Fatal(err)
				}
				if err := readHead(br); err != nil {
					b.Fatal(err)
				}
				if _, err := br.Discard(size); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
