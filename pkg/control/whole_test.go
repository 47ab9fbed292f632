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
	rows, _, err := c.Since(t.Context(), 0)
	if err != nil || len(rows) != 1 || rows[0].ReqBody != nil || rows[0].ReqHeader.Get("authorization") != "Bearer ***" {
		t.Errorf("a page has %+v, %v", rows, err)
	}
	for path, want := range map[string]string{"/v1/exchanges/2": "not kept any more", "/v1/exchanges/x": "invalid syntax"} {
		if err := c.do(t.Context(), http.MethodGet, path, &Whole{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
