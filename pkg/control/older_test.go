package control

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"lane/pkg/traffic"
)

// A session goes on for days, and whoever looks at it may have a newer program by
// then: a session of an older version knows JSON alone, and no bound but limit.
func TestASessionOfAnOlderVersion(t *testing.T) {
	dir := shortDir(t)
	ln, err := net.Listen("unix", filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock"))
	if err != nil {
		t.Fatal(err)
	}
	row := traffic.Exchange{Seq: 8, Start: time.Unix(1, 0).UTC(), Method: "GET", URL: "http://orders/1", Status: 200}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || r.URL.Path != "/v1/exchanges" {
			http.NotFound(w, r)
			return
		}
		out := page{Rows: []Exchange{NewExchange(&row)}, Lost: uint64(limit)}
		reply(w, http.StatusOK, out)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	c := Dial(dir, os.Getpid())
	b, err := c.Batch(t.Context(), 7, 400, 0)
	if err != nil || len(b.Rows) != 1 || b.Rows[0].URL != row.URL || b.Rows[0].Seq != 8 || b.Lost != 0 {
		t.Errorf("Batch = %+v, %v", b, err)
	}
	rows, lost, err := c.Since(t.Context(), 7, 0)
	if err != nil || len(rows) != 1 || rows[0].Seq != 8 || lost != rowsMost {
		t.Errorf("Since = %+v, %d, %v", rows, lost, err)
	}
	if _, err := c.Messages(t.Context(), 8); err == nil || err.Error() != "session answered 404 Not Found" {
		t.Errorf("Messages: %v", err)
	}
}

// A viewer of an older version asks for JSON, and gets it; this one gets what it asks
// for: all rows, or the newest and figures.
func TestWhatAViewerAsksFor(t *testing.T) {
	dir, log := shortDir(t), traffic.NewLog(1000)
	stop := serve(t, dir, &fake{}, log)
	c := Dial(dir, os.Getpid())
	for range 700 {
		log.Put(traffic.Exchange{Service: "orders", Status: 500})
	}
	var p page
	if err := c.do(t.Context(), http.MethodGet, "/v1/exchanges?after=100&limit=5000&wait=20s&heads=0", 0, &p); err != nil || len(p.Rows) != 600 {
		t.Errorf("an older viewer: %d rows, %v", len(p.Rows), err)
	}
	for most, want := range map[int]int{0: 600, 600: 600, 599: 100} {
		b, err := c.Batch(t.Context(), 100, most, 0)
		if err != nil || len(b.Rows) != want || b.Rows[want-1].Seq != 700 || int(b.Missing()) != 600-want {
			t.Errorf("%d at most: %d rows, %d missing, %v", most, len(b.Rows), b.Missing(), err)
		}
		if want == 100 && (len(b.Left) != 1 || b.Left[0].N != 500 || b.Left[0].Failed != 500 || b.Left[0].Last.Service != "orders") {
			t.Errorf("tallies %+v", b.Left)
		}
	}
	if rows, lost, err := c.Next(t.Context(), 0, 0); err != nil || len(rows) != 700 || lost != 0 {
		t.Errorf("Next: %d rows, %d lost, %v", len(rows), lost, err)
	}
	m, err := c.Messages(t.Context(), 3)
	if err != nil || len(m.Req) != 1 || m.Note != "that is all" {
		t.Errorf("Messages = %+v, %v", m, err)
	}
	if _, err := c.Messages(t.Context(), 9999); err == nil || err.Error() != "exchange 9999 is not kept any more" {
		t.Errorf("Messages of none: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
