// Package scene is one afternoon in lane dev-alice: fixed exchanges and a fixed
// status, for golden screens and for looking at the UI. It is no part of the
// program, and nothing in it is random or reads a clock.
package scene

import (
	"fmt"
	"net/http"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Now is the scene's time.
func Now() time.Time { return time.Date(2026, 3, 2, 14, 2, 15, 0, time.UTC) }

// Status is a session with two services, all well.
func Status() control.Status {
	return control.Status{
		Schema: control.StatusSchema, Lane: "dev-alice", Owner: "alice@desk-7", Host: "desk-7", PID: 4711,
		Started: Now().Add(-72 * time.Minute), Proxy: "http://127.0.0.1:7474", State: "up",
		Registry: control.RegistryStatus{Address: "127.0.0.1:8500", State: "fresh", Since: Now(), Index: 88213},
		Services: []control.Service{
			{Name: "orders", Registered: "orders", ID: "lane:dev-alice:orders:3f9c", Mode: "shared",
				Guard: "10.2.0.77:40117", Local: "127.0.0.1:8080", State: control.StateUp},
			{Name: "payments", Registered: "lane-dev-alice-payments", ID: "lane:dev-alice:payments:3f9c", Mode: "isolated",
				Guard: "10.2.0.77:40118", Local: "127.0.0.1:8081", State: control.StateUp},
		},
		Counts: Counts(Exchanges()),
	}
}

// Counts are the totals of exchanges, as a session counts them.
func Counts(rows []traffic.Exchange) control.Counts {
	c := control.Counts{Exchanges: uint64(len(rows)), Fallbacks: map[string]uint64{}, Errors: map[string]uint64{}, Guard: map[string]uint64{}}
	for i := range rows {
		switch e := &rows[i]; {
		case e.Guard != "":
			c.Guard[e.Guard]++
		case e.Fallback():
			c.Fallbacks[string(e.Reason)]++
		case e.Kind == lane.KindLaneMatch:
			c.Matched++
		case e.Kind == lane.KindExternal:
			c.External++
		}
		if rows[i].Code != "" {
			c.Errors[string(rows[i].Code)]++
		}
	}
	return c
}

// Exchanges are seven exchanges, one of each kind that a user meets on a day.
func Exchanges() []traffic.Exchange {
	const l = lane.Name("dev-alice")
	at := func(s, ms int) time.Time {
		return Now().Truncate(time.Minute).Add(time.Duration(s)*time.Second + time.Duration(ms)*time.Millisecond)
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	rows := []traffic.Exchange{
		{Start: at(11, 120), Took: ms(42), First: ms(41), Front: traffic.FrontGuard, From: "10.2.0.9:51022",
			Method: "POST", URL: "http://orders/api/orders", Proto: "HTTP/1.1", Service: "orders", Tag: "dev-alice", Lane: l,
			Kind: lane.KindLaneMatch, Reason: "lane_match", Guard: traffic.GuardPassed, Addr: "127.0.0.1:8080",
			Tries: 1, Status: 201, ReqSize: 311, ResSize: 88, TraceID: "6c1f0a7e55b14b0e9b0cf1f1f3a1d2aa"},
		{Start: at(11, 158), Took: ms(118), First: ms(117), Front: traffic.FrontForward, From: "127.0.0.1:53110",
			Method: "POST", URL: "http://ledger/v1/charge", Proto: "HTTP/1.1", Service: "ledger",
			Tag: "baseline", Kind: lane.KindBaseline, Reason: "explicit_baseline", Instance: "ledger-1", Addr: "10.2.0.21:8080",
			Tries: 1, Status: 200, ReqSize: 120, ResSize: 64},
		{Start: at(12, 4), Took: ms(9), First: ms(9), Front: traffic.FrontForward, From: "127.0.0.1:53111",
			Method: "GET", URL: "http://orders/api/orders/42", Proto: "HTTP/1.1", Service: "orders", Lane: l,
			Kind: lane.KindLaneMatch, Reason: "lane_match", Instance: "lane:dev-alice:orders:3f9c", Addr: "10.2.0.77:40117",
			Tries: 1, Status: 200, ResSize: 512, TraceID: "0af7651916cd43dd8448eb211c80319c"},
		{Start: at(12, 310), Took: ms(2001), First: ms(2001), Front: traffic.FrontForward, From: "127.0.0.1:53112",
			Method: "GET", URL: "http://inventory/v1/stock?sku=9&api_key=s3cr3t", Proto: "HTTP/1.1", Service: "inventory", Lane: l,
			Kind: lane.KindFallback, Reason: "lane_absent", Instance: "inventory-2", Addr: "10.2.0.31:8080",
			Tries: 1, Status: 503, ResSize: 19},
		{Start: at(12, 990), Took: ms(77), First: ms(76), DNS: ms(4), Conn: ms(71), Front: traffic.FrontForward, From: "127.0.0.1:53113",
			Method: "CONNECT", URL: "api.partner.test:443", Proto: "CONNECT", Kind: lane.KindExternal, Reason: "external_host",
			Addr: "203.0.113.8:443", Tries: 1, Status: 200, ReqSize: 1930, ResSize: 48211},
		{Start: at(13, 640), Took: ms(0), Front: traffic.FrontGuard, From: "10.2.0.44:40222",
			Method: "GET", URL: "http://orders/api/orders", Proto: "HTTP/1.1", Service: "orders",
			Kind: lane.KindBaseline, Reason: "untagged", Guard: traffic.GuardBounced, Instance: "orders-1", Addr: "10.2.0.12:8080",
			Tries: 1, Status: 200, ResSize: 2210},
		{Start: at(14, 11), Took: ms(31), First: ms(30), Conn: ms(1), Front: traffic.FrontForward, From: "127.0.0.1:53114",
			Method: "GET", URL: "http://users/v1/users/7", Proto: "HTTP/1.1", Service: "users", Lane: l,
			Kind: lane.KindFallback, Reason: "lane_absent", Instance: "users-7f9c", Addr: "10.2.0.14:8080",
			Tries: 1, Status: 200, ResSize: 412, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
			ReqHeader: traffic.HeadOf(http.Header{"Accept": {"application/json"}, "Authorization": {"Bearer eyJhbGciOiJIUzI1NiJ9.e30.x"},
				"Baggage": {"lane=dev-alice"}, "User-Agent": {"curl/8.5.0"}, "X-Lane-Tag": {"dev-alice"}}),
			ResHeader: traffic.HeadOf(http.Header{"Content-Type": {"application/json"}, "Set-Cookie": {"sid=31d4; Path=/; HttpOnly"},
				"X-Lane-Decision": {"FALLBACK_BASELINE; lane=dev-alice; reason=lane_absent; instance=users-7f9c"}}),
			Warnings: []string{"quarantined:users-tmp"}},
	}
	for i := range rows {
		rows[i].Seq = uint64(i) + 1
	}
	return rows
}

// Stream is n exchanges for which Exchanges is the pattern, the first one
// numbered from.
func Stream(from uint64, n int) []traffic.Exchange {
	pattern := Exchanges()
	out := make([]traffic.Exchange, n)
	for i := range out {
		seq := from + uint64(i)
		e := pattern[seq%uint64(len(pattern))]
		e.Seq = seq
		e.Start = Now().Add(time.Duration(seq) * 40 * time.Millisecond)
		e.TraceID = fmt.Sprintf("%016x%016x", seq*0x9e3779b97f4a7c15, seq)
		out[i] = e
	}
	return out
}

// Hour is the traffic of the last five minutes: a caller at the gateway, the
// services that orders calls meanwhile, and a fallback that has ended.
func Hour() []traffic.Exchange {
	const l = lane.Name("dev-alice")
	var out []traffic.Exchange
	put := func(e traffic.Exchange, at time.Time, took int) {
		e.Seq, e.Start, e.Took = uint64(len(out))+1, at, time.Duration(took)*time.Millisecond
		e.First, e.Proto, e.Tries = e.Took, "HTTP/1.1", 1
		out = append(out, e)
	}
	began := Now().Add(-4*time.Minute - 50*time.Second)
	for i := range 145 {
		at := began.Add(time.Duration(i) * 2 * time.Second)
		trace := fmt.Sprintf("%016x%016x", uint64(i+1)*0x9e3779b97f4a7c15, i+1)
		slow := i * i % 17
		status := 200
		if i%29 == 28 {
			status = 500
		}
		charge := traffic.Exchange{Front: traffic.FrontForward, From: "127.0.0.1:53110", Method: "POST", URL: "http://ledger/v1/charge",
			Service: "ledger", Tag: "dev-alice", Lane: l, Kind: lane.KindFallback, Reason: lane.ReasonLaneAbsent, Instance: "ledger-1", Addr: "10.2.0.21:8080", Status: status, TraceID: trace, ResSize: 64}
		put(charge, at.Add(4*time.Millisecond), 20+slow)
		users := traffic.Exchange{Front: traffic.FrontForward, From: "127.0.0.1:53110", Method: "GET", URL: fmt.Sprintf("http://users/v1/users/%d", i),
			Service: "users", Tag: "dev-alice", Lane: l, Kind: lane.KindFallback, Reason: lane.ReasonLaneAbsent, Instance: "users-7f9c", Addr: "10.2.0.14:8080", Status: 200, TraceID: trace, ResSize: 412}
		if i > 100 { // bob has joined users to the lane
			users.Kind, users.Reason, users.Instance, users.Addr = lane.KindLaneMatch, lane.ReasonLaneMatch, "lane:dev-alice:users:77aa", "10.2.0.88:40900"
		}
		put(users, at.Add(26*time.Millisecond+time.Duration(slow)*time.Millisecond), 9+slow/2)
		put(traffic.Exchange{Front: traffic.FrontGuard, From: "10.2.0.9:51022", Method: "POST", URL: "http://10.2.0.77:40117/api/orders", Service: "orders",
			Tag: "dev-alice", Lane: l, Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Guard: traffic.GuardPassed, Addr: "127.0.0.1:8080", Status: status, TraceID: trace, ResSize: 88},
			at, 42+2*slow)
		if i%4 == 0 {
			put(traffic.Exchange{Front: traffic.FrontGuard, From: "10.2.0.44:40222", Method: "GET", URL: "http://10.2.0.77:40117/api/orders", Service: "orders",
				Kind: lane.KindBaseline, Reason: lane.ReasonUntagged, Guard: traffic.GuardBounced, Instance: "orders-1", Addr: "10.2.0.12:8080", Status: 200, ResSize: 2210}, at.Add(700*time.Millisecond), 6+slow)
		}
		if i%10 == 0 {
			put(traffic.Exchange{Front: traffic.FrontForward, From: "127.0.0.1:53120", Method: "GET", URL: "http://inventory/v1/stock?sku=9", Service: "inventory",
				Tag: "baseline", Kind: lane.KindBaseline, Reason: lane.ReasonExplicitBaseline, Instance: "inventory-2", Addr: "10.2.0.31:8080", Status: 200, ResSize: 19}, at.Add(time.Second), 3+slow)
		}
	}
	return out
}
