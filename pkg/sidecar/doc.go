// Package sidecar is one `lane sidecar`: the companion of a baseline service that
// passes on trace headers and knows no lanes. Before the application it learns
// with which tag each trace came in; behind it, as the proxy of the application's
// own calls, it gives them that tag again.
//
//	caller --> inbound --> application --> outbound --> the next service
//	              |                            ^
//	              +-- trace id --> tag --------+
//
// It never looks at a response, and lets nothing wait for the map.
package sidecar
