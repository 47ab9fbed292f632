package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

func TestRoundTripper(t *testing.T) {
	s := newShop(t, nil)
	c := &http.Client{Transport: s.tr}
	req, _ := http.NewRequest("POST", "http://order-service/a%2Fb?x=1", strings.NewReader("hello"))
	req.Header.Set("X-Mine", "1")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "alice" || len(req.Header) != 1 {
		t.Errorf("%q, the caller's header is now %v", b, req.Header)
	}
	ex := s.exchange(1)
	if ex.ReqSize != 5 || ex.ResSize != 5 || ex.URL != "http://order-service/a%2Fb?x=1" || ex.Instance != "o-alice" || ex.Tries != 1 {
		t.Errorf("%+v", ex)
	}
	if _, err := c.Get("http://nothing-here/"); err != nil {
		t.Error(err) // a problem is a response
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req, _ = http.NewRequestWithContext(ctx, "GET", "http://order-service/", nil)
	if _, err := s.tr.RoundTrip(req); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRecord(t *testing.T) {
	s := newShop(t, func(c *Config) { c.KeepHeaders = true })
	conn, br := raw(t, s.addr, "GET http://user:secret@order-service/a?b=1 HTTP/1.1\r\nHost: order-service\r\nAuthorization: Bearer abc\r\n"+
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(resp.Body)
	resp.Body.Close()
	ex := s.exchange(1)
	want := traffic.Exchange{Seq: 1, Front: traffic.FrontForward, From: conn.LocalAddr().String(), Method: "GET",
		URL: "http://order-service/a?b=1", Proto: "HTTP/1.1", Service: "order-service", Lane: "dev-alice",
		Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Instance: "o-alice", Addr: s.alice.addr(), Tries: 1,
		Status: 200, ResSize: 5, TraceID: "0af7651916cd43dd8448eb211c80319c"}
	if ex.Start.IsZero() || ex.Took <= 0 || ex.First <= 0 || ex.First > ex.Took {
		t.Errorf("times %v %v %v", ex.Start, ex.First, ex.Took)
	}
	if strings.Contains(fmt.Sprint(ex.ReqHeader), "abc") || ex.ReqHeader.Header().Get("Authorization") == "" || ex.ResHeader.Header().Get("X-Who") != "alice" {
		t.Errorf("heads %v %v", ex.ReqHeader, ex.ResHeader)
	}
	ex.Start, ex.Took, ex.First, ex.Conn, ex.ReqHeader, ex.ResHeader = time.Time{}, 0, 0, 0, traffic.Head{}, traffic.Head{}
	if fmt.Sprintf("%+v", ex) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", ex, want)
	}
	if h := s.alice.header(); h.Get("Authorization") != "Bearer abc" {
		t.Errorf("arrived %v", h)
	}
}

// A trace is recorded by the id that the map of traces reads, and by none that it
// does not take for one.
func TestRecordsTheTrace(t *testing.T) {
	s := newShop(t, nil)
	for i, tt := range []struct{ header, value, id string }{
		{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"},
		{"b3", "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1", "80f198ee56343ba864fe8b2a57d3eff7"},
		{"X-B3-TraceId", "463AC35C9F6413AD", "463ac35c9f6413ad"},
		{"uber-trace-id", "deadbeef:deadbef0:0:1", "000000000000000000000000deadbeef"},
		{"sw8", "1-QS43NC4x-QS43NC4w-1-b3JkZXJz-aW4=-L2E=-cA==", "A.74.1"},
		{"x-datadog-trace-id", "11803532876627986230", "a3ce929d0e0e4736"},
		{"x-amzn-trace-id", "Root=1-5759e988-bd862e3fe1be46a994272793", "5759e988bd862e3fe1be46a994272793"},
		{"x-request-id", "order-42", "order-42"},
		{"x-b3-traceid", "no hex at all", ""},
		{"traceparent", "00-zzf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", ""},
		{"traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", ""},
		{"x-request-id", strings.Repeat("a", 129), ""},
	} {
		do(t, s.client(), "GET", "http://order-service/", http.Header{tt.header: {tt.value}}, nil)
		if ex := s.exchange(uint64(i + 1)); ex.TraceID != tt.id {
			t.Errorf("%s: %s is recorded as %q, want %q", tt.header, tt.value, ex.TraceID, tt.id)
		}
	}
}
