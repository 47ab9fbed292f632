package traffic

import (
	"time"

	"lane/pkg/lane"
)

// Front says which front of the engine an exchange came in by.
type Front string

// The fronts.
const (
	FrontForward Front = "forward" // a call of the developer's, outgoing
	FrontGuard   Front = "guard"   // a request to the local process, incoming
	FrontGateway Front = "gateway"
	FrontSidecar Front = "sidecar"
)

// Guard outcomes, in Exchange.Guard.
const (
	GuardPassed   = "passed"   // the tag was the lane's: the local process served it
	GuardBounced  = "bounced"  // sent on to the baseline
	GuardRejected = "rejected" // answered 421
	GuardProbe    = "probe"    // a health probe, answered by the guard
)

// Exchange is one request and its response, as recorded. It is a value: once
// put into a Log nothing of it changes.
type Exchange struct {
	Seq   uint64 // given by Log.Put, from 1, without gaps
	Start time.Time
	Took  time.Duration // until the response's last byte
	First time.Duration // until the response's head
	// Of First, DNS is what the search for the server's name took, and Conn the making
	// of a connection, TLS too. Both are 0 on one that stood already.
	DNS, Conn time.Duration

	Front  Front
	From   string // the caller's address, host:port
	Method string
	URL    string // as asked, e.g. http://order-service/api/orders/42
	Proto  string // HTTP/1.1, CONNECT, ws

	Service string // empty for an external host
	Tag     string // the tag as received, raw
	Lane    lane.Name
	Kind    lane.Kind
	Reason  lane.Reason
	Code    lane.Code // an error of lane's own
	Rule    string    // ID of the rule that colored it, at an entry
	RuleRev string    // revision of the rules in force, at an entry
	Guard   string    // passed, bounced, rejected or probe; empty elsewhere
	Note    string    // e.g. "not colored (TLS)"

	Instance string // ID of the instance that served it
	Addr     string // its address
	Tries    int    // instances that were dialled

	Status  int   // 0: none was received
	ReqSize int64 // body bytes
	ResSize int64
	// Err is a transport error in words, apart from any status.
	Err string

	TraceID string
	// ClientTraceID is the trace that the caller named, where the entry has begun
	// another one because that caller is not trusted.
	ClientTraceID string
	ReqHeader     Head
	ResHeader     Head
	Warnings      []string

	// The bodies, nil where none was to be kept. A Log lets the oldest go.
	ReqBody, ResBody *Body
}

// Fallback says whether a tagged request was served by the baseline.
func (e *Exchange) Fallback() bool {
	return e.Kind == lane.KindFallback || e.Kind == lane.KindDegraded
}

// Failed says whether the exchange had no good end: an error of lane's own, a
// transport error, or a server error of the application.
func (e *Exchange) Failed() bool { return e.Code != "" || e.Err != "" || e.Status >= 500 }

// Phases are what the exchange's time went for: the search for the server's name, the
// making of a connection, the wait for the response's head, and what came behind it.
func (e *Exchange) Phases() (dns, conn, wait, rest time.Duration) {
	head := e.First
	if head == 0 { // there was none
		head = e.Took
	}
	dns = min(e.DNS, head)
	conn = min(e.Conn, head-dns)
	return dns, conn, head - dns - conn, max(e.Took-head, 0)
}
