package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"lane/pkg/lane"
)

// Expose says whom an entry's answers tell which instance served, and what an error
// has to do with addresses inside. The decision and the lane everybody learns.
type Expose string

// Who learns it.
const (
	ExposeTrusted Expose = "trusted" // who may choose a lane
	ExposeAll     Expose = "all"
	ExposeNone    Expose = "none"
)

// ParseExpose reads a setting.
func ParseExpose(s string) (Expose, error) {
	switch e := Expose(s); e {
	case ExposeTrusted, ExposeAll, ExposeNone:
		return e, nil
	}
	return "", fmt.Errorf("%q is none of trusted, all and none", s)
}

func (e Expose) to(trusted bool) bool { return e == ExposeAll || e != ExposeNone && trusted }

// says is what X-Lane-Decision says to this caller.
func (c *call) says(dec *lane.Decision, in *lane.Instance) string {
	if c.veiled {
		in = nil
	}
	return dec.Header(in)
}

// veil leaves in a problem what everybody may know.
func (p *Problem) veil() {
	if p.public != "" {
		p.Message, p.Hint = p.public, p.publicHint
	}
}

// inner is the answer in place of an error of an inner hop's, whose words are not
// for this caller; nil where the answer may pass.
func (c *call) inner(code string, status int, rpc string) *Problem {
	if !c.veiled || !strings.HasPrefix(code, "E_") || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return nil
	}
	p := &Problem{Code: lane.Code(code), Service: c.ex.Service, Lane: c.ex.Lane, TraceID: c.ex.TraceID, status: status,
		Message: "a service behind " + c.ex.Service + ", or its sidecar, has answered with an error", Hint: "the access logs know more of this trace"}
	if status < http.StatusBadRequest { // gRPC's
		p.status = 0
	}
	p.rpc, _ = strconv.Atoi(rpc)
	return p
}

// replaced is a problem as a response in place of a server's.
func (c *call) replaced(req *http.Request, p *Problem, decision string) *http.Response {
	resp := p.response(req, decision)
	if c.grpc {
		p.asGRPC(resp)
	}
	return c.answered(resp)
}

// replace answers in place of the server, and reads no more of it.
func (l *line) replace(p *Problem, say said) {
	w, c := &l.way, &l.way.c
	x := w.peer
	x.conn.Close() // what is still sent to it ends
	l.hush()
	w.peer = nil // not before: an upload writes to it
	c.ex.Note = "answered by an inner hop: " + string(p.Code)
	resp := c.replaced(l.net(), p, say.decision)
	say.put(resp.Header)
	l.answer(c, resp)
}
