package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Codes of the fronts, beside those of decisions.
const (
	// CodeGuardRejected is a guard's answer, 421, to a request that is not the
	// lane's, where it is set to reject.
	CodeGuardRejected lane.Code = "E_GUARD_REJECTED"
	// CodeBadRequest is 400: what came is not HTTP/1.1, or two programs could read
	// it in two ways. Heads that are too large get 431.
	CodeBadRequest lane.Code = "E_BAD_REQUEST"
	// CodeRelayLost is 502, or 503 when the tunnel has no room.
	CodeRelayLost = traffic.CodeRelayLost
	// CodeBadTarget is 400: a request target that a proxy cannot send on.
	CodeBadTarget lane.Code = "E_BAD_TARGET"
)

// Problem is an error of ours that the caller gets as a response.
type Problem struct {
	Code    lane.Code   `json:"code"`
	Message string      `json:"message"`
	Service string      `json:"service"`
	Lane    lane.Name   `json:"lane"`
	Reason  lane.Reason `json:"reason"`
	TraceID string      `json:"trace_id"`
	Hint    string      `json:"hint"`

	// public and publicHint are for whom the insides are nothing to; empty: both
	// texts are for everybody.
	public, publicHint string

	status int
	rpc    int // gRPC status, where it is not the code's
}

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Message }

// Status is the HTTP status of the problem.
func (p *Problem) Status() int {
	if p.status != 0 {
		return p.status
	}
	return p.Code.HTTP()
}

// isGRPC reports whether a request is a gRPC call; grpc-web, which browsers speak,
// is another protocol.
func isGRPC(h http.Header) bool {
	ct := h["Content-Type"]
	if len(ct) == 0 {
		return false
	}
	rest, ok := strings.CutPrefix(ct[0], "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// grpc is the gRPC status of the problem.
func (p *Problem) grpc() int {
	if p.rpc != 0 {
		return p.rpc
	}
	switch p.Code {
	case CodeGuardRejected:
		return 9 // FAILED_PRECONDITION: to ask again helps nobody
	case CodeBadTarget:
		return 3 // INVALID_ARGUMENT
	case CodeRelayLost:
		return 14 // UNAVAILABLE
	}
	return p.Code.GRPC()
}

// asGRPC makes the response what a gRPC client understands: a status in the head,
// and no body. It would show an HTTP status as its own number, and the body never.
func (p *Problem) asGRPC(resp *http.Response) {
	text := p.Message
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	h := resp.Header
	h["Content-Type"] = []string{"application/grpc"}
	h["Grpc-Status"] = []string{strconv.Itoa(p.grpc())}
	h["Grpc-Message"] = []string{grpcMessage(string(p.Code) + ": " + text)}
	delete(h, "Content-Length")
	delete(h, "Cache-Control")
	resp.Status, resp.StatusCode, resp.ContentLength, resp.Body = "200 OK", http.StatusOK, 0, http.NoBody
}

// grpcMessage encodes a text for the header grpc-message.
func grpcMessage(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// response is the problem as a response, as if an upstream had sent it. goproxy
// would make a 500 out of an error.
func (p *Problem) response(req *http.Request, decision string) *http.Response {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(p) // strings only: cannot fail
	body := buf.Bytes()
	h := http.Header{
		"Content-Type":      {"application/json"},
		"Content-Length":    {strconv.Itoa(len(body))},
		"Cache-Control":     {"no-store"},
		lane.HeaderError:    {string(p.Code)},
		lane.HeaderDecision: {decision},
	}
	if decision == "" {
		delete(h, lane.HeaderDecision)
	}
	code := p.Status()
	var content io.ReadCloser = io.NopCloser(bytes.NewReader(body))
	if req != nil && req.Method == http.MethodHead {
		content = http.NoBody
	}
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: int64(len(body)), Request: req,
		Body: content,
	}
}
