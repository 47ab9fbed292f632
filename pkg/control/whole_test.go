package control

import (
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"lane/pkg/traffic"
)

// One exchange is whole; a page of them has neither bodies nor secrets.
func TestWholeExchange(t *testing.T) {
	dir, log := shortDir(t), traffic.NewLog(10)
	stop := serve(t, dir, &fake{}, log)
	c := Dial(dir, os.Getpid())
	e := traffic.Exchange{Start: time.Unix(1, 0).UTC(), Took: 1500 * time.Microsecond, Method: "POST", URL: "http://orders/1",
		ReqHeader: traffic.HeadText("authorization: Bearer hunter2\r\nX-B: 2\r\na: 1\r\n"),
		ResHeader: traffic.HeadOf(http.Header{"X": {strings.Repeat("x", 5000)}}),
		ReqBody:   &traffic.Body{Bytes: []byte{0, 0xff, '"'}}, ResBody: &traffic.Body{Bytes: []byte("cut"), Cut: true}}
	log.Put(e)
	got, err := c.Whole(t.Context(), 1)
	e.Seq = 1
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, e)
	}
	if f := got.ReqHeader.Raw(); len(f) != 3 || f[0].Name != "authorization" || f[0].Value != "Bearer hunter2" || !got.ResHeader.Cut() {
		t.Errorf("its head is %q", f)
	}
	rows, _, err := c.Since(t.Context(), 0, AllHeads)
	if err != nil || len(rows) != 1 || rows[0].ReqBody != nil || rows[0].ReqHeader.Get("authorization") != "Bearer ***" {
		t.Errorf("a page has %+v, %v", rows, err)
	}
	for path, want := range map[string]string{"/v1/exchanges/2": "not kept any more", "/v1/exchanges/x": "invalid syntax"} {
		if err := c.do(t.Context(), http.MethodGet, path, 0, &Whole{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// Heads come when they are asked for, or when there are few of them; all else of a
// row always does.
func TestHeadsOfAPage(t *testing.T) {
	dir, log := shortDir(t), traffic.NewLog(10)
	stop := serve(t, dir, &fake{}, log)
	c := Dial(dir, os.Getpid())
	e := traffic.Exchange{Start: time.Unix(1, 0).UTC(), Method: "GET", URL: "http://orders/1", Status: 200, TraceID: "4bf9",
		ReqHeader: traffic.HeadText("A: 1\r\n"), ResHeader: traffic.HeadText("B: 2\r\n")}
	for range 3 {
		log.Put(e)
	}
	for heads, want := range map[int]bool{0: false, 2: false, 3: true, AllHeads: true} {
		for name, ask := range map[string]func() ([]traffic.Exchange, uint64, error){
			"Since": func() ([]traffic.Exchange, uint64, error) { return c.Since(t.Context(), 0, heads) },
			"Next":  func() ([]traffic.Exchange, uint64, error) { return c.Next(t.Context(), 0, heads) },
		} {
			rows, _, err := ask()
			if err != nil || len(rows) != 3 {
				t.Fatalf("%s, heads %d: %d rows, %v", name, heads, len(rows), err)
			}
			for i, got := range rows {
				w := e
				w.Seq = uint64(i + 1)
				if !want {
					w.ReqHeader, w.ResHeader = traffic.Head{}, traffic.Head{}
				}
				if !reflect.DeepEqual(got, w) {
					t.Errorf("%s, heads %d:\ngot  %+v\nwant %+v", name, heads, got, w)
				}
			}
		}
	}
	// A viewer of an older version does not say what it needs, and needs them.
	var p page
	if err := c.do(t.Context(), http.MethodGet, "/v1/exchanges?after=0&limit=10&wait=0s", 0, &p); err != nil || len(p.Rows) != 3 || p.Rows[2].ReqHead.Get("a") != "1" {
		t.Errorf("unsaid: %+v, %v", p, err)
	}
	if err := c.do(t.Context(), http.MethodGet, "/v1/exchanges?after=0&limit=10&wait=0s&heads=x", 0, &p); err == nil || !strings.Contains(err.Error(), "invalid syntax") {
		t.Errorf("heads=x: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
