package relay

import (
	"context"
	"errors"
	"time"

	"lane/pkg/consul"
	"lane/pkg/token"
)

const (
	// forgetAfter is how long a revocation has stood, as this relay has seen it, before it
	// may go. No token of before it is good any longer then, whatever the revoker's clock
	// said: a token lives for token.MaxTTL at most, and it is this relay's clock that judges.
	forgetAfter = token.MaxTTL + time.Hour
	// forgetEvery is between two looks.
	forgetEvery = 10 * time.Minute
)

// stood is a revocation, and since when this relay knows it as it is.
type stood struct {
	consul.Revocation
	since time.Time
}

// follow brings what is known of the revocations up to what is heard now. One that was
// written anew begins anew.
func follow(known map[string]stood, heard map[string]consul.Revocation, now time.Time) map[string]stood {
	out := make(map[string]stood, len(heard))
	for id, r := range heard {
		s, ok := known[id]
		if !ok || s.Revocation != r {
			s = stood{r, now}
		}
		out[id] = s
	}
	return out
}

// lost are the revocations that are not heard of any more and hold here all the same: a
// registry that has lost its data must let nobody in again. A token's hold until none of
// before them could be good; what a certificate's key says of its end is nothing.
func lost(known map[string]stood, heard map[string]consul.Revocation, now time.Time) map[string]stood {
	out := map[string]stood{}
	for id, s := range known {
		if _, ok := heard[id]; !ok && (ByCertificate(id) || now.Sub(s.since) <= forgetAfter) {
			out[id] = s
		}
	}
	return out
}

// past are the revocations of tokens that have ended by themselves: they say so, and no
// token of before them could be good any more. What is not of the form that `lane relay
// token revoke` writes is somebody else's, and stays.
func past(known map[string]stood, now time.Time) (out []consul.Revocation) {
	for id, s := range known {
		if token.CheckID(id) == nil && !ByCertificate(id) && s.Readable && !s.Expires.IsZero() && now.Sub(s.Expires) > time.Hour && now.Sub(s.since) > forgetAfter {
			out = append(out, s.Revocation)
		}
	}
	return out
}

// forget removes what was revoked of tokens that have long ended. A relay that may only
// read there, which is enough to serve, leaves it.
func (r *relay) forget(ctx context.Context) error {
	every := r.o.forgetEvery
	if every == 0 {
		every = forgetEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for may := true; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		r.mu.Lock()
		old := past(r.stood, r.o.Now())
		r.mu.Unlock()
		for _, rev := range old {
			if !may {
				break
			}
			gone, err := r.o.Client.ForgetRevocation(ctx, rev)
			var denied *consul.DeniedError
			switch {
			case errors.As(err, &denied):
				may = false
				r.o.Logger.Info("the revocations of tokens that have ended stay: this relay may not remove them", "error", err)
			case err != nil:
				r.o.Logger.Info("remove the revocation of a token that has ended", "token", rev.ID, "error", err)
			case gone:
				r.o.Audit.Info("revocation removed", "user", rev.User, "token", rev.ID, "expired", rev.Expires.Format(time.RFC3339))
			}
		}
	}
}
