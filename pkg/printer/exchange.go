package printer

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"lane/pkg/iostreams"
	"lane/pkg/traffic"
)

// ExchangeSchema names the JSON form of an exchange.
const ExchangeSchema = "lane.exchange/v1"

// ExchangeRecord is the JSON form of an exchange: a line of `lane tail --json`.
// Secrets are masked.
type ExchangeRecord struct {
	Schema    string      `json:"schema"`
	Seq       uint64      `json:"seq"`
	Start     time.Time   `json:"start"`
	TookMS    float64     `json:"took_ms"`
	FirstMS   float64     `json:"first_ms"` // until the response's head
	DNSMS     float64     `json:"dns_ms"`   // of first_ms, for the server's name
	ConnMS    float64     `json:"conn_ms"`  // and for a connection; 0 on one that stood
	Front     string      `json:"front"`
	From      string      `json:"from"`
	Method    string      `json:"method"`
	URL       string      `json:"url"`
	Proto     string      `json:"proto"`
	Service   string      `json:"service"`
	Tag       string      `json:"tag"`
	Lane      string      `json:"lane"`
	Route     string      `json:"route"`
	Kind      string      `json:"kind"`
	Reason    string      `json:"reason"`
	Code      string      `json:"code"`
	Guard     string      `json:"guard"`
	Why       string      `json:"why"`
	Note      string      `json:"note"`
	Instance  string      `json:"instance"`
	Addr      string      `json:"addr"`
	Tries     int         `json:"tries"`
	Status    int         `json:"status"`
	ReqSize   int64       `json:"req_size"`
	ResSize   int64       `json:"res_size"`
	Err       string      `json:"err"`
	TraceID   string      `json:"trace_id"`
	Warnings  []string    `json:"warnings"`
	ReqHeader http.Header `json:"req_header,omitempty"`
	ResHeader http.Header `json:"res_header,omitempty"`
}

// NewExchangeRecord converts an exchange and masks its secrets.
func NewExchangeRecord(e *traffic.Exchange) ExchangeRecord {
	warnings := e.Warnings
	if warnings == nil {
		warnings = []string{}
	}
	return ExchangeRecord{
		Schema: ExchangeSchema, Seq: e.Seq, Start: e.Start, TookMS: ms(e.Took), FirstMS: ms(e.First), DNSMS: ms(e.DNS), ConnMS: ms(e.Conn),
		Front: string(e.Front), From: e.From, Method: e.Method, URL: traffic.MaskURL(e.URL), Proto: e.Proto,
		Service: e.Service, Tag: e.Tag, Lane: string(e.Lane), Route: traffic.Route(e), Kind: string(e.Kind),
		Reason: string(e.Reason), Code: string(e.Code), Guard: e.Guard, Why: traffic.Why(e), Note: e.Note,
		Instance: e.Instance, Addr: e.Addr, Tries: e.Tries, Status: e.Status, ReqSize: e.ReqSize, ResSize: e.ResSize,
		Err: e.Err, TraceID: e.TraceID, Warnings: warnings,
		ReqHeader: e.ReqHeader.Header(), ResHeader: e.ResHeader.Header(),
	}
}

// ms is a duration in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Exchange writes one exchange as a line: for a person on a terminal, with
// fixed columns first, as the next line is not known yet; tab-separated off it.
// These are the fields off a terminal: start, front, from, method, URL, route,
// status, milliseconds, lane, reason, code, guard, instance, why.
func Exchange(s *iostreams.IOStreams, e *traffic.Exchange) error {
	if s.IsStdoutTTY {
		_, err := fmt.Fprintln(s.Out, exchangeLine(s, e))
		return err
	}
	t := NewTable(s)
	t.Row(Time(s, e.Start), Text(string(e.Front)), Text(traffic.From(e)), Text(e.Method), Text(traffic.MaskURL(e.URL)),
		Text(traffic.Route(e)), Text(strconv.Itoa(e.Status)), Text(strconv.FormatFloat(ms(e.Took), 'f', 3, 64)),
		Text(string(e.Lane)), Text(string(e.Reason)), Text(string(e.Code)), Text(e.Guard), Text(e.Instance), Text(traffic.Why(e)))
	return t.Flush()
}

func exchangeLine(s *iostreams.IOStreams, e *traffic.Exchange) string {
	status := "---" // no response is no status
	if e.Status > 0 {
		status = strconv.Itoa(e.Status)
	}
	role := routeRole(e)
	way := "out"
	if e.Front == traffic.FrontGuard {
		way = "in " // a call to one's own process is both: out, and in again
	}
	line := Time(s, e.Start).Text + " " + way + " " +
		paint(s.Color, role, string(traffic.Mark(e))+" "+fmt.Sprintf("%-8s", traffic.Route(e))) + " " +
		paint(s.Color, statusRole(e), status) + " " + fmt.Sprintf("%7s", Took(e.Took)) + "  " +
		traffic.Printable(e.Method) + " " + traffic.Printable(traffic.MaskURL(e.URL))
	if e.Instance != "" {
		line += paint(s.Color, Dim, " -> "+traffic.Printable(e.Instance))
	}
	if e.Err != "" && e.Code == "" {
		line += "  " + paint(s.Color, Bad, traffic.Printable(e.Err))
	}
	// What went as the reader expects needs no reason.
	if role != Good && role != Plain {
		line += "  " + paint(s.Color, role, "("+traffic.Why(e)+")")
	}
	return line
}

func routeRole(e *traffic.Exchange) Role {
	switch traffic.Route(e) {
	case traffic.RouteError, traffic.RouteLost:
		return Bad
	case traffic.RouteFallback, traffic.RouteKilled, traffic.RouteGuard:
		return Warn
	case traffic.RouteLane:
		return Good
	}
	return Plain
}

func statusRole(e *traffic.Exchange) Role {
	switch {
	case e.Status == 0 || e.Status >= 500:
		return Bad
	case e.Status >= 400:
		return Warn
	}
	return Plain
}

// Took is a duration for people: three digits at most and a unit.
func Took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + "µs"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(ms(d), 'f', 1, 64) + "ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 100*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return d.Round(time.Second).String()
}

// LostSchema names the JSON form of a gap.
const LostSchema = "lane.lost/v1"

// LostRecord is the line of `lane tail --json` that stands for a gap.
type LostRecord struct {
	Schema string `json:"schema"`
	Lost   uint64 `json:"lost"` // exchanges that the log no longer had
}

// Lost says that n exchanges are missing here: the reader was too slow. It goes
// to Err, so that lines of Out stay exchanges.
func Lost(s *iostreams.IOStreams, n uint64) error {
	if n == 0 {
		return nil
	}
	_, err := fmt.Fprintln(s.Err, paint(s.ErrColor, Warn, strconv.FormatUint(n, 10)+" exchanges passed faster than they were read, and are not shown"))
	return err
}
