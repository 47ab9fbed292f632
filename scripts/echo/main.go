// Command echo is the HTTP server that scripts/bench measures against: it answers
// every request with 1 KiB, and prints its address.
package main

import (
	"bytes"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ln.Addr())
	body := bytes.Repeat([]byte("x"), 1024)
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body) // the client is gone: nobody is left to tell
	})}
	log.Fatal(srv.Serve(ln))
}
