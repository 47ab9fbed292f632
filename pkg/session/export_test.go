package session

import (
	"time"

	"lane/pkg/consul"
)

// Quicken returns o with short times: a step's limit, 0 for the usual one, and
// those of the beats.
func Quicken(o Options, step time.Duration, hold consul.HoldOptions) Options {
	o.step, o.hold = step, hold
	return o
}
