package tunnel

import (
	"context"
	"crypto/x509"
	"time"
)

// Probed is what a try to make a link has shown.
type Probed struct {
	Certificate *x509.Certificate // the relay's own, which is trusted
	RTT         time.Duration     // there and back inside the tunnel
	Facts       map[string]string // what the relay says of itself
	// Clock is the relay's own, in whole seconds, between Before and After of this
	// machine's. Zero: it did not say.
	Clock, Before, After time.Time
}

// Probe makes one link, claims nothing, and ends it. The error is as of Run. It is for
// an agent that does not run.
func (a *Agent) Probe(ctx context.Context) (Probed, error) {
	p := Probed{Before: a.wall()}
	l, err := a.connect(ctx, a.conf.Generation)
	if err != nil {
		return p, err
	}
	defer func() {
		l.close()
		_ = l.control.sess.Close()
		_ = l.bulk.sess.Close()
	}()
	p.After, p.Clock, p.Certificate = l.upgraded, l.clock, l.certificate
	p.Facts = l.facts
	if s, ok := l.control.sess.(interface{ Ping() (time.Duration, error) }); ok {
		p.RTT, err = s.Ping()
	}
	return p, err
}
