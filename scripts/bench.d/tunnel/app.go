//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// app is the process on the laptop that is called: a line says what is wanted.
//
//	pull N   N bytes, then the end
//	echo     what comes, in pieces of 1 KiB
type app struct {
	l     net.Listener
	addr  string
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]bool
}

const piece = 1 << 10

func startApp() (*app, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &app{l: l, addr: l.Addr().String(), conns: map[net.Conn]bool{}}
	a.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			a.mu.Lock()
			a.conns[c] = true
			a.mu.Unlock()
			a.wg.Go(func() {
				a.serve(c)
				_ = c.Close()
				a.mu.Lock()
				delete(a.conns, c)
				a.mu.Unlock()
			})
		}
	})
	return a, nil
}

func (a *app) close() {
	_ = a.l.Close()
	a.mu.Lock()
	for c := range a.conns {
		_ = c.Close()
	}
	a.mu.Unlock()
	a.wg.Wait()
}

func (a *app) serve(c net.Conn) {
	br := bufio.NewReaderSize(c, piece)
	line, err := br.ReadString('\n')
	if err != nil {
		return
	}
	var n int64
	if _, err := fmt.Sscanf(line, "pull %d", &n); err == nil {
		block := make([]byte, 64<<10)
		for i := uint64(0); n > 0; i++ {
			binary.BigEndian.PutUint64(block, i)
			w, err := c.Write(block[:min(n, int64(len(block)))])
			if n -= int64(w); err != nil {
				return
			}
		}
		return
	}
	if strings.TrimSpace(line) == "echo" {
		b := make([]byte, piece)
		for {
			if _, err := io.ReadFull(br, b); err != nil {
				return
			}
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}
}

// patience bounds everything that is waited for.
const patience = 60 * time.Second

func ask(addr, what string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, what+"\n"); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// pull reads n bytes through addr, and returns MB/s, from the question on.
func pull(addr string, n int64) (float64, error) {
	began := time.Now()
	c, err := ask(addr, fmt.Sprintf("pull %d", n))
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	got, err := io.Copy(io.Discard, c)
	if err != nil || got != n {
		return 0, fmt.Errorf("%d of %d bytes: %w", got, n, err)
	}
	return float64(n) / 1e6 / time.Since(began).Seconds(), nil
}

// echo sends one piece and waits for it.
func echo(c net.Conn, b []byte) error {
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}
