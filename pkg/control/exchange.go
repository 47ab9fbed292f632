package control

import (
	"net/http"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Exchange is a traffic.Exchange on the socket, without its bodies and with the
// secrets of its heads masked. The URL is not: the viewer does that.
type Exchange struct {
	Seq      uint64      `json:"seq"`
	Start    time.Time   `json:"start"`
	TookMS   float64     `json:"took_ms"`
	FirstMS  float64     `json:"first_ms"`
	DNSMS    float64     `json:"dns_ms"`
	ConnMS   float64     `json:"conn_ms"`
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
	x := headless(e)
	x.ReqHead, x.ResHead = e.ReqHeader.Header(), e.ResHeader.Header()
	return x
}

// headless is e in its JSON form, without its heads: they are most of the cost of
// a row.
func headless(e *traffic.Exchange) Exchange {
	return Exchange{Seq: e.Seq, Start: e.Start, TookMS: ms(e.Took), FirstMS: ms(e.First), DNSMS: ms(e.DNS), ConnMS: ms(e.Conn),
		Front: string(e.Front), From: e.From, Method: e.Method, URL: e.URL, Proto: e.Proto,
		Service: e.Service, Tag: e.Tag, Lane: string(e.Lane), Kind: string(e.Kind), Reason: string(e.Reason),
		Code: string(e.Code), Guard: e.Guard, Note: e.Note, Instance: e.Instance, Addr: e.Addr, Tries: e.Tries,
		Status: e.Status, ReqSize: e.ReqSize, ResSize: e.ResSize, Err: e.Err, TraceID: e.TraceID,
		Warnings: e.Warnings}
}

// Traffic is x as the exchange that it was made of.
func (x *Exchange) Traffic() traffic.Exchange {
	return traffic.Exchange{Seq: x.Seq, Start: x.Start, Took: fromMS(x.TookMS), First: fromMS(x.FirstMS), DNS: fromMS(x.DNSMS), Conn: fromMS(x.ConnMS),
		Front: traffic.Front(x.Front), From: x.From, Method: x.Method, URL: x.URL, Proto: x.Proto,
		Service: x.Service, Tag: x.Tag, Lane: lane.Name(x.Lane), Kind: lane.Kind(x.Kind), Reason: lane.Reason(x.Reason),
		Code: lane.Code(x.Code), Guard: x.Guard, Note: x.Note, Instance: x.Instance, Addr: x.Addr, Tries: x.Tries,
		Status: x.Status, ReqSize: x.ReqSize, ResSize: x.ResSize, Err: x.Err, TraceID: x.TraceID,
		ReqHeader: traffic.HeadOf(x.ReqHead), ResHeader: traffic.HeadOf(x.ResHead), Warnings: x.Warnings}
}

// Whole is an exchange with its bodies and with its heads as they were, secrets
// too: it goes over the socket only when its own user asks for that one exchange.
type Whole struct {
	Exchange
	ReqFields []Field `json:"req_fields"`
	ResFields []Field `json:"res_fields"`
	ReqCut    bool    `json:"req_cut,omitempty"` // some of the head was too long to be kept
	ResCut    bool    `json:"res_cut,omitempty"`
	ReqBody   *Body   `json:"req_body,omitempty"`
	ResBody   *Body   `json:"res_body,omitempty"`
}

// Field is a field of a head, in its place.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Body is what was kept of a body.
type Body struct {
	Bytes []byte `json:"bytes"`
	Cut   bool   `json:"cut,omitempty"`
}

// NewWhole is all of e in its JSON form.
func NewWhole(e *traffic.Exchange) Whole {
	w := Whole{Exchange: headless(e), ReqFields: fields(e.ReqHeader), ResFields: fields(e.ResHeader),
		ReqCut: e.ReqHeader.Cut(), ResCut: e.ResHeader.Cut()}
	if e.ReqBody != nil {
		w.ReqBody = &Body{e.ReqBody.Bytes, e.ReqBody.Cut}
	}
	if e.ResBody != nil {
		w.ResBody = &Body{e.ResBody.Bytes, e.ResBody.Cut}
	}
	return w
}

func fields(h traffic.Head) []Field {
	out := []Field{}
	for _, f := range h.Raw() {
		out = append(out, Field(f))
	}
	return out
}

func head(in []Field, cut bool) traffic.Head {
	out := make([]traffic.Field, len(in))
	for i, f := range in {
		out[i] = traffic.Field(f)
	}
	return traffic.HeadOfFields(out, cut)
}

// Traffic is w as the exchange that it was made of.
func (w *Whole) Traffic() traffic.Exchange {
	e := w.Exchange.Traffic()
	e.ReqHeader, e.ResHeader = head(w.ReqFields, w.ReqCut), head(w.ResFields, w.ResCut)
	if w.ReqBody != nil {
		e.ReqBody = &traffic.Body{Bytes: w.ReqBody.Bytes, Cut: w.ReqBody.Cut}
	}
	if w.ResBody != nil {
		e.ResBody = &traffic.Body{Bytes: w.ResBody.Bytes, Cut: w.ResBody.Cut}
	}
	return e
}
