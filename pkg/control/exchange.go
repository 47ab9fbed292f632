package control

import (
	"net/http"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Exchange is a traffic.Exchange on the socket. Nothing of it is masked: the
// viewer does that.
type Exchange struct {
	Seq      uint64      `json:"seq"`
	Start    time.Time   `json:"start"`
	TookMS   float64     `json:"took_ms"`
	FirstMS  float64     `json:"first_ms"`
	Front    string      `json:"front"`
	From     string      `json:"from,omitempty"`
	Method   string      `json:"method"`
	URL      string      `json:"url"`
	Proto    string      `json:"proto,omitempty"`
	Service  string      `json:"service,omitempty"`
	Tag      string      `json:"tag,omitempty"`
	Lane     string      `json:"lane,omitempty"`
	Kind     string      `json:"kind"`
	Reason   string      `json:"reason,omitempty"`
	Code     string      `json:"code,omitempty"`
	Guard    string      `json:"guard,omitempty"`
	Note     string      `json:"note,omitempty"`
	Instance string      `json:"instance,omitempty"`
	Addr     string      `json:"addr,omitempty"`
	Tries    int         `json:"tries,omitempty"`
	Status   int         `json:"status"`
	ReqSize  int64       `json:"req_bytes"`
	ResSize  int64       `json:"res_bytes"`
	Err      string      `json:"error,omitempty"`
	TraceID  string      `json:"trace_id,omitempty"`
	ReqHead  http.Header `json:"req_header,omitempty"`
	ResHead  http.Header `json:"res_header,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
}

func ms(d time.Duration) float64     { return float64(d.Microseconds()) / 1000 }
func fromMS(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }

// NewExchange is e in its JSON form.
func NewExchange(e *traffic.Exchange) Exchange {
	return Exchange{Seq: e.Seq, Start: e.Start, TookMS: ms(e.Took), FirstMS: ms(e.First),
		Front: string(e.Front), From: e.From, Method: e.Method, URL: e.URL, Proto: e.Proto,
		Service: e.Service, Tag: e.Tag, Lane: string(e.Lane), Kind: string(e.Kind), Reason: string(e.Reason),
		Code: string(e.Code), Guard: e.Guard, Note: e.Note, Instance: e.Instance, Addr: e.Addr, Tries: e.Tries,
		Status: e.Status, ReqSize: e.ReqSize, ResSize: e.ResSize, Err: e.Err, TraceID: e.TraceID,
		ReqHead: e.ReqHeader.Header(), ResHead: e.ResHeader.Header(), Warnings: e.Warnings}
}

// Traffic is x as the exchange that it was made of.
func (x *Exchange) Traffic() traffic.Exchange {
	return traffic.Exchange{Seq: x.Seq, Start: x.Start, Took: fromMS(x.TookMS), First: fromMS(x.FirstMS),
		Front: traffic.Front(x.Front), From: x.From, Method: x.Method, URL: x.URL, Proto: x.Proto,
		Service: x.Service, Tag: x.Tag, Lane: lane.Name(x.Lane), Kind: lane.Kind(x.Kind), Reason: lane.Reason(x.Reason),
		Code: lane.Code(x.Code), Guard: x.Guard, Note: x.Note, Instance: x.Instance, Addr: x.Addr, Tries: x.Tries,
		Status: x.Status, ReqSize: x.ReqSize, ResSize: x.ResSize, Err: x.Err, TraceID: x.TraceID,
		ReqHeader: traffic.HeadOf(x.ReqHead), ResHeader: traffic.HeadOf(x.ResHead), Warnings: x.Warnings}
}
