// The program around the Go of docs/passing.md.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"passing/onward"
)

func main() {
	next := os.Getenv("NEXT")
	call := func(ctx context.Context, c *http.Client) string {
		req, err := http.NewRequestWithContext(ctx, "GET", next, nil)
		if err != nil {
			return err.Error()
		}
		resp, err := c.Do(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	}
	client := &http.Client{Transport: onward.Transport{Base: http.DefaultTransport}}
	work := make(chan func())
	go func() {
		for f := range work {
			f()
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("/now", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, call(r.Context(), client)) })
	mux.HandleFunc("/bare", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, call(r.Context(), http.DefaultClient)) })
	mux.HandleFunc("/later", func(w http.ResponseWriter, r *http.Request) {
		said, ctx := make(chan string, 1), context.WithoutCancel(r.Context())
		work <- func() { said <- call(ctx, client) }
		fmt.Fprint(w, <-said)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(ln, onward.Handler(mux)))
}
