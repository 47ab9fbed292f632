package printer

import (
	"strings"
	"testing"

	"lane/pkg/iostreams"
	"lane/pkg/metrics"
)

func flow(service, lane, front string, requests, errors, fallbacks uint64, ms float64) metrics.Row {
	w := metrics.Window{Seconds: 10, Requests: requests, Errors: errors, Fallbacks: fallbacks, Rate: float64(requests) / 10,
		Took: []metrics.Bucket{{UpTo: ms, Count: requests}}, Instances: []metrics.InstanceCount{{Instance: service + "-1", Requests: requests, Errors: errors}}}
	long := w
	long.Requests *= 6
	return metrics.Row{Service: service, Lane: lane, Front: front, Short: w, Long: long}
}

func tops() Top {
	gateway := metrics.Stats{Rows: []metrics.Row{flow("", "baseline", "gateway", 9, 0, 0, 1), flow("orders", "baseline", "gateway", 100, 2, 0, 10),
		flow("orders", "gray", "gateway", 10, 1, 5, 100), flow("stock", "baseline", "gateway", 20, 0, 0, 5)}}
	other := metrics.Stats{Rows: []metrics.Row{flow("orders", "gray", "gateway", 10, 0, 5, 100), flow("users", "gray", "forward", 5, 0, 5, 1)}}
	sidecar := metrics.Stats{Rows: []metrics.Row{flow("stock", "baseline", "sidecar", 50, 0, 0, 5), flow("stock", "gray", "forward", 7, 0, 7, 5),
		flow("stock", "gray", "sidecar", 10, 0, 10, 5)}}
	return NewTop([]TopPort{{Addr: "a"}, {Addr: "b"}, {Addr: "c\x1b[31m", ID: "gw-3", Error: "refused\nby c"}}, []metrics.Stats{gateway, other, sidecar}, false)
}

func TestTopAddsPortsUp(t *testing.T) {
	top := tops()
	if top.Seconds != 10 || len(top.Services) != 3 {
		t.Fatalf("%+v", top)
	}
	orders, stock, users := top.Services[0], top.Services[1], top.Services[2]
	if orders.Lane != "gray" || orders.In.Requests != 20 || orders.In.Errors != 1 || orders.In.Fallbacks != 10 || orders.In.Rate != 2 ||
		orders.Baseline.Requests != 100 || len(orders.Served) != 1 || orders.Served[0] != (TopPart{"orders-1", 20, 1}) {
		t.Errorf("%+v", orders)
	}
	// The sidecar of stock has seen all of its requests, also those of the gateway.
	if stock.Service != "stock" || stock.Lane != "gray" || stock.Baseline.Requests != 50 || stock.In.Requests != 10 || stock.In.Fallbacks != 10 {
		t.Errorf("%+v", stock)
	}
	if users.Lane != "gray" || users.In.Requests != 5 || users.Baseline.Requests != 0 {
		t.Errorf("%+v", users)
	}
	// What a lane's own instance serves, and what lane answers itself, comes to no
	// sidecar of the baseline.
	mixed := NewTop(nil, []metrics.Stats{{Rows: []metrics.Row{flow("stock", "gray", "gateway", 12, 3, 4, 5), flow("stock", "gray", "sidecar", 6, 0, 6, 5),
		flow("stock", "baseline", "sidecar", 50, 0, 0, 5)}}}, false)
	if in := mixed.Services[0].In; in.Requests != 12 || in.Fallbacks != 4 || in.Errors != 3 || mixed.Services[0].Baseline.Requests != 50 {
		t.Errorf("%+v", mixed.Services)
	}
	long := NewTop(nil, []metrics.Stats{{Rows: []metrics.Row{flow("orders", "gray", "gateway", 10, 0, 0, 1)}}}, true)
	if long.Services[0].In.Requests != 60 {
		t.Errorf("%+v", long.Services)
	}
}

func TestTopTable(t *testing.T) {
	s, _, out, errOut := iostreams.Test()
	top := tops()
	if err := PrintTop(s, &top); err != nil {
		t.Fatal(err)
	}
	if err := TopNotes(s, &top); err != nil {
		t.Fatal(err)
	}
	want := "orders\tgray\t2.0/s\t5.0%\t50.0%\t99ms\t99ms\t10.0/s\t2.0%\t9.9ms\t10.0ms\n" +
		"stock\tgray\t1.0/s\t0.0%\t100.0%\t5.0ms\t5.0ms\t5.0/s\t0.0%\t5.0ms\t5.0ms\n" +
		"users\tgray\t0.5/s\t0.0%\t100.0%\t995µs\t999µs\t0.0/s\t-\t-\t-\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	if got := errOut.String(); got != `c\x1b[31m (gw-3) does not answer: refused by c`+"\n" {
		t.Errorf("%q", got)
	}
	s, _, out, errOut = iostreams.Test()
	s.IsStdoutTTY = true
	if err := PrintTop(s, &top); err != nil || !strings.HasPrefix(out.String(), "SERVICE  LANE  RATE") {
		t.Errorf("%v\n%s", err, out)
	}
	empty := NewTop(nil, nil, false)
	if err := TopNotes(s, &empty); err != nil || errOut.String() != "no requests yet\n" {
		t.Errorf("%v %q", err, errOut)
	}
}
