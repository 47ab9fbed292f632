//go:build linux

// Command rate sends requests at a fixed rate, whether or not the ones before are
// answered in time, and says how long the answers took. Each has its moment, and
// its time counts from that moment on: one that had to wait for a slow answer on
// its connection is as late as its user would find it. That is what wrk cannot
// do: it sends the next request when it has the last one's answer, and so leaves
// out those that would have suffered most.
//
//	request   0    1    2    3    4    5  ...      each at its moment
//	conn      0    1    2    0    1    2
//
// Each connection has a thread of its own that sleeps in the kernel: Go's timers
// are a millisecond late where nothing else happens.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// options are the command line.
type options struct {
	addr  net.TCPAddr
	head  []byte // of a request, with mark in it
	at    int    // where the mark is, -1 for none
	rate  int
	conns int
	total int
}

// mark in a header's value becomes a number that no other request of the run has.
const mark = "@@@@@@@@"

func parse(args []string) (*options, error) {
	var o options
	var headers strings.Builder
	fs := flag.NewFlagSet("rate", flag.ContinueOnError)
	addr := fs.String("addr", "", "the server, `IP:PORT`")
	path := fs.String("path", "/", "the request's target")
	fs.Func("H", "a `HEADER`, may be repeated; "+mark+" in it becomes the request's number", func(h string) error {
		if !strings.Contains(h, ": ") || strings.ContainsAny(h, "\r\n") {
			return errors.New("want NAME: VALUE")
		}
		headers.WriteString(h + "\r\n")
		return nil
	})
	fs.IntVar(&o.rate, "rate", 1000, "requests a second")
	fs.IntVar(&o.conns, "conns", 16, "connections that they are spread over")
	length := fs.Duration("time", 5*time.Second, "how long")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	ap, err := net.ResolveTCPAddr("tcp4", *addr)
	if err != nil || ap.IP == nil {
		return nil, fmt.Errorf("--addr: %q is no address: %w", *addr, err)
	}
	o.addr = *ap
	o.total = int(length.Seconds() * float64(o.rate))
	if o.rate < 1 || o.conns < 1 || o.total < 1 || fs.NArg() > 0 {
		return nil, errors.New("wrong arguments; -h lists them")
	}
	o.head = []byte("GET " + *path + " HTTP/1.1\r\n" + headers.String() + "\r\n")
	o.at = bytes.Index(o.head, []byte(mark))
	return &o, nil
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(o, os.Stdout)
	}
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "rate:", err)
		}
		os.Exit(1)
	}
}

// run prints what wrk's script prints: requests, µs, bytes, p50 and p99 in µs,
// errors.
func run(o *options, out io.Writer) error {
	debug.SetGCPercent(-1) // nothing here is garbage
	runtime.GOMAXPROCS(o.conns + 1)
	conns := make([]*conn, o.conns)
	for i := range conns {
		c, err := dial(o)
		if err != nil {
			return err
		}
		defer c.close()
		conns[i] = c
	}
	took := make([]time.Duration, o.total) // -1: it failed
	start := time.Now().Add(10 * time.Millisecond)
	var all sync.WaitGroup
	for i, c := range conns {
		all.Go(func() { c.run(i, start, took) })
	}
	all.Wait()
	wall := time.Since(start)
	var size int64
	for _, c := range conns {
		size += c.size
	}
	slices.Sort(took)
	failed, _ := slices.BinarySearch(took, 0)
	took = took[failed:]
	_, err := fmt.Fprintf(out, "RESULT %d %d %d %d %d %d\n", len(took), wall.Microseconds(), size, part(took, 50), part(took, 99), failed)
	return err
}

// part is a percentile, in µs.
func part(sorted []time.Duration, percent int) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Microseconds()
}

// conn is one connection, in blocking mode.
type conn struct {
	o    *options
	fd   int
	head []byte
	in   []byte
	size int64
}

func dial(o *options) (*conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	to := unix.SockaddrInet4{Port: o.addr.Port}
	copy(to.Addr[:], o.addr.IP.To4())
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1), unix.Connect(fd, &to))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", &o.addr, err), unix.Close(fd))
	}
	return &conn{o: o, fd: fd, head: bytes.Clone(o.head), in: make([]byte, 64<<10)}, nil
}

func (c *conn) close() { _ = unix.Close(c.fd) }

// run sends every conns-th request, the first-th first. After a failure the
// connection's other requests have failed too.
func (c *conn) run(first int, start time.Time, took []time.Duration) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // else every sleep is 50 µs too long
	var failed error
	for i := first; i < len(took); i += c.o.conns {
		took[i] = -1
		if failed != nil {
			continue
		}
		at := start.Add(time.Duration(i) * time.Second / time.Duration(c.o.rate))
		for left := time.Until(at); left > 0; left = time.Until(at) {
			ts := unix.NsecToTimespec(int64(left))
			_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil) // looked at again
		}
		if failed = c.ask(i); failed != nil {
			fmt.Fprintln(os.Stderr, "rate:", failed)
			continue
		}
		took[i] = time.Since(at)
	}
}

// ask sends the request of a number and reads its answer.
func (c *conn) ask(i int) error {
	if c.o.at >= 0 {
		copy(c.head[c.o.at:], fmt.Appendf(nil, "%08x", uint32(i)))
	}
	for out := c.head; len(out) > 0; {
		n, err := unix.Write(c.fd, out)
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		out = out[n:]
	}
	got, want := 0, -1
	for want < 0 || got < want {
		if got == len(c.in) {
			return errors.New("a longer answer than this is made for")
		}
		n, err := unix.Read(c.fd, c.in[got:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read: %w", err)
		case n == 0:
			return errors.New("the server closed the connection")
		}
		got += n
		if want < 0 {
			if want, err = whole(c.in[:got]); err != nil {
				return err
			}
		}
	}
	c.size += int64(got)
	if got > want {
		return errors.New("the answer is longer than it says")
	}
	return nil
}

// whole is how long an answer is, head and body, -1 while that is not known.
func whole(b []byte) (int, error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return -1, nil
	}
	head := b[:end+2]
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		line, _, _ := bytes.Cut(head, []byte("\r\n"))
		return 0, fmt.Errorf("the answer is %q", line)
	}
	const name = "\r\ncontent-length:"
	for at := 0; at+len(name) <= len(head); at++ {
		if !bytes.EqualFold(head[at:at+len(name)], []byte(name)) {
			continue
		}
		value, _, _ := bytes.Cut(head[at+len(name):], []byte("\r\n"))
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		return end + 4 + n, err
	}
	return 0, errors.New("the answer has no Content-Length")
}
