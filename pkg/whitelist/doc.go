// Package whitelist answers whether a user is on a route's list, so that a rule
// can color him: from Redis Sets, which operators edit with redis-cli, or from
// lists that the caller reads out of its configuration store.
//
//	Member --> cache --> breaker --> one flight for each key --> Redis | Reader
//	            10 s      1 s         50 ms at most
//
// It never returns an error and never holds a request for longer than 50 ms:
// whatever it cannot find out is "not a member", which means the baseline. It
// knows no lane, no rule and no registry, never writes to a list, never logs a
// user's id, and uses no proxy of the environment.
package whitelist
