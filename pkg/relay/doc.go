// Package relay is one `lane relay`: it lets in who has a token, registers what they
// claim in its own name, and leads the lane's requests through the tunnel to their
// laptops. It writes no bytes of a tunnel by itself, and never dials what a client
// names: only what the registry holds for a service.
//
//	caller --> guard (a port for each claim) --tunnel--> laptop's guard --> process
//	             |
//	             +-- not the lane's --> baseline
package relay
