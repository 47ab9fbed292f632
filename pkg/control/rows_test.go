package control

import (
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// filled is an exchange in which every field has a value of its own: a field that a
// form of it forgets is missed.
func filled(t testing.TB, seed uint64) traffic.Exchange {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	var e traffic.Exchange
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC()))
		case traffic.Head:
			f.Set(reflect.ValueOf(traffic.HeadText("X-" + word(r) + ": " + strings.TrimSpace(word(r)) + "\r\n")))
		case *traffic.Body:
		case []string:
			f.Set(reflect.ValueOf([]string{word(r), word(r)}))
		default:
			switch f.Kind() {
			case reflect.String:
				f.SetString(word(r))
			case reflect.Uint64:
				f.SetUint(r.Uint64())
			case reflect.Int, reflect.Int64:
				f.SetInt(r.Int64() - 1<<62)
			default:
				t.Fatalf("field %s has a kind that this test does not know", v.Type().Field(i).Name)
			}
		}
	}
	return e
}

func word(r *rand.Rand) string {
	b := make([]byte, 1+r.IntN(40))
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return string(b)
}

func TestRowsComeBack(t *testing.T) {
	var b traffic.Batch
	for seed := range uint64(50) {
		b.Rows = append(b.Rows, filled(t, seed))
	}
	b.Rows = append(b.Rows, traffic.Exchange{})
	last := filled(t, 99)
	last.ReqHeader, last.ResHeader = traffic.Head{}, traffic.Head{}
	b.Left = []traffic.Tally{{N: 7, Failed: 1, First: last.Start, Last: &last}}
	b.Lost, b.More = 3, 1<<63
	got, err := readBatch(string(appendBatch(nil, &b, true)))
	if err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, b)
	}
	bare, err := readBatch(string(appendBatch(nil, &b, false)))
	for i := range b.Rows {
		b.Rows[i].ReqHeader, b.Rows[i].ResHeader = traffic.Head{}, traffic.Head{}
	}
	if err != nil || !reflect.DeepEqual(bare, b) {
		t.Errorf("without heads: %v\ngot  %+v\nwant %+v", err, bare, b)
	}
}

// No secret of a head goes over the socket, and a head that was cut says so still.
func TestRowsMaskHeads(t *testing.T) {
	b := traffic.Batch{Rows: []traffic.Exchange{{
		ReqHeader: traffic.HeadText("authorization: Bearer hunter2\r\nX-B: 2\r\nCookie: a=hunter2\r\n"),
		ResHeader: traffic.HeadOf(http.Header{"X": {strings.Repeat("x", 5000)}, "Set-Cookie": {"s=hunter2; Path=/"}})}}}
	raw := string(appendBatch(nil, &b, true))
	if strings.Contains(raw, "hunter2") {
		t.Errorf("a secret is in %q", raw)
	}
	got, err := readBatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	req, res := got.Rows[0].ReqHeader, got.Rows[0].ResHeader
	if f := req.Raw(); len(f) != 3 || f[0] != (traffic.Field{Name: "authorization", Value: "Bearer ***"}) || f[2].Value != "a=***" || req.Cut() {
		t.Errorf("the request's head is %q, cut %v", f, req.Cut())
	}
	if res.Get("Set-Cookie") != "s=***; Path=/" || !res.Cut() {
		t.Errorf("the response's head is %q, cut %v", res.Raw(), res.Cut())
	}
}

// What is cut off, or longer than it says, is no batch, and takes no memory that it
// only names.
func FuzzReadBatch(f *testing.F) {
	b := traffic.Batch{Rows: []traffic.Exchange{filled(f, 1)}, Left: []traffic.Tally{{Last: &traffic.Exchange{}}}}
	whole := string(appendBatch(nil, &b, true))
	for n := range len(whole) {
		if _, err := readBatch(whole[:n]); err == nil {
			f.Errorf("the first %d bytes of %d are a batch", n, len(whole))
		}
	}
	if _, err := readBatch(whole + "x"); err == nil {
		f.Error("a batch has a byte too many")
	}
	f.Add(whole)
	f.Add("")
	f.Add("\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, s string) {
		b, err := readBatch(s)
		if err != nil {
			return
		}
		again, err := readBatch(string(appendBatch(nil, &b, true)))
		if err != nil || len(again.Rows) != len(b.Rows) {
			t.Errorf("read, written and read: %v", err)
		}
	})
}

// stream is a second of a busy session's rows, as its proxy records them.
func stream(n int) []traffic.Exchange {
	rows := make([]traffic.Exchange, n)
	for i := range rows {
		rows[i] = traffic.Exchange{Seq: uint64(i + 1), Start: time.Now(), Took: 812 * time.Microsecond, First: 790 * time.Microsecond,
			Front: traffic.FrontForward, From: "127.0.0.1:53110", Method: "GET", URL: "http://users/v1/users/" + strings.Repeat("7", i%8), Proto: "HTTP/1.1",
			Service: "users", Lane: "dev-alice", Kind: lane.KindFallback, Reason: lane.ReasonLaneAbsent, Instance: "users-7f9c", Addr: "10.2.0.14:8080",
			Tries: 1, Status: 200, ResSize: 412, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
			ReqHeader: traffic.HeadText("Host: users\r\nUser-Agent: wrk\r\nAccept: */*\r\n"), ResHeader: traffic.HeadText("Content-Type: text/plain\r\nContent-Length: 412\r\n")}
	}
	return rows
}

// BenchmarkRows is what 333 rows, a frame of a screen at 5,000 a second, cost the
// session and its viewer.
func BenchmarkRows(b *testing.B) {
	batch := traffic.Batch{Rows: stream(333)}
	b.Run("write", func(b *testing.B) {
		var out []byte
		b.ReportAllocs()
		for b.Loop() {
			out = appendBatch(out[:0], &batch, false)
		}
		b.SetBytes(int64(len(out)))
	})
	raw := string(appendBatch(nil, &batch, false))
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if _, err := readBatch(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
