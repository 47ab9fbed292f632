// Package admin is the port on which a gateway or a sidecar is looked at:
// metrics, health, the revision of its rules, and its figures of the last
// seconds. It answers reads only, to whoever may reach it: this machine, unless
// another address is asked for. It never routes a request, and changes nothing.
package admin
