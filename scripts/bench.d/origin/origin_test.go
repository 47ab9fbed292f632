package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, head, tag string
		size            int64
		closed          bool
	}{
		{"plain", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "", 1024, false},
		{"tagged", "GET / HTTP/1.1\r\nX-Lane-Tag: a\r\n\r\n", "a", 1024, false},
		{"big", "GET /big HTTP/1.1\r\nx-lane-tag: a\r\n\r\n", "a", 10 << 20, false},
		{"body", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "", 1024, false},
		{"close", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "", 1024, true},
		{"old", "GET / HTTP/1.0\r\n\r\n", "", 1024, true},
		{"old, kept", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "", 1024, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			done := make(chan struct{})
			go func() { serve(there); close(done) }()
			if err := here.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(here)
			times := 2
			if tt.closed {
				times = 1
			}
			for range times {
				if _, err := io.WriteString(here, tt.head); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				if err != nil || n != tt.size || resp.Header.Get("x-lane-tag-seen") != tt.tag || resp.Close != tt.closed {
					t.Errorf("%d bytes, tag %q, close %v, %v", n, resp.Header.Get("x-lane-tag-seen"), resp.Close, err)
				}
			}
			if !tt.closed {
				here.Close()
			}
			<-done
		})
	}
	if has([]byte("x-lane-tagged: a"), tagIs) {
		t.Error("another header is taken for the tag")
	}
}
