// Command origin is the server that scripts/bench measures against: it answers
// each request with 1 KiB, and a path that ends in /big with 10 MiB; it says in
// x-lane-tag-seen which tag the request bore, and it prints its address. It reads
// heads and writes answers on one goroutine for a connection and allocates
// nothing, so that it is not what a measurement measures.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
)

const big = 10 << 20

var (
	small  = bytes.Repeat([]byte("x"), 1024)
	chunk  = bytes.Repeat([]byte("x"), 256<<10)
	tagIs  = []byte("x-lane-tag:")
	lenIs  = []byte("content-length:")
	connIs = []byte("connection:")
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ln.Addr())
	for {
		conn, err := ln.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(conn)
	}
}

// request is what the origin looks at.
type request struct {
	big, close bool
	length     int
	tag        []byte // in a buffer of the caller's
}

func serve(conn net.Conn) {
	defer conn.Close()
	br := bufio.NewReaderSize(conn, 16<<10)
	out := make([]byte, 0, 4096)
	var req request
	for {
		if err := req.read(br); err != nil {
			return // the client has gone, or sent what this is not made for
		}
		if _, err := br.Discard(req.length); err != nil {
			return
		}
		out = req.answer(out[:0])
		if _, err := conn.Write(out); err != nil {
			return
		}
		if req.big && writeBig(conn) != nil || req.close {
			return
		}
	}
}

// read reads one head.
func (r *request) read(br *bufio.Reader) error {
	r.big, r.close, r.length, r.tag = false, false, 0, r.tag[:0]
	line, err := br.ReadSlice('\n')
	if err != nil {
		return err
	}
	r.big = bytes.Contains(line, []byte("/big "))
	r.close = bytes.HasSuffix(line, []byte("HTTP/1.0\r\n"))
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return nil
		}
		if err := r.header(line); err != nil {
			return err
		}
	}
}

func (r *request) header(line []byte) (err error) {
	switch {
	case has(line, tagIs):
		r.tag = append(r.tag, bytes.TrimSpace(line[len(tagIs):])...)
	case has(line, lenIs):
		r.length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lenIs):])))
	case has(line, connIs):
		r.close = bytes.EqualFold(bytes.TrimSpace(line[len(connIs):]), []byte("close")) ||
			r.close && !bytes.EqualFold(bytes.TrimSpace(line[len(connIs):]), []byte("keep-alive"))
	}
	return err
}

func has(line, name []byte) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], name)
}

func (r *request) answer(out []byte) []byte {
	out = append(out, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n"...)
	if len(r.tag) > 0 {
		out = append(append(append(out, "x-lane-tag-seen: "...), r.tag...), "\r\n"...)
	}
	if r.close {
		out = append(out, "Connection: close\r\n"...)
	}
	size := len(small)
	if r.big {
		size = big
	}
	out = append(strconv.AppendInt(append(out, "Content-Length: "...), int64(size), 10), "\r\n\r\n"...)
	if r.big {
		return out
	}
	return append(out, small...)
}

func writeBig(w io.Writer) error {
	for range big / len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}
