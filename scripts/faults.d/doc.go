// Package faults holds tests that break what lane stands on, a real Consul above
// all, while requests go through a gateway, a guard and a developer's proxy; that
// kill sessions at random; and that let processes race for claims. It is no part
// of the program. scripts/faults runs its long form, and go test a short one.
package faults
