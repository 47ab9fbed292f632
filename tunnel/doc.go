// Package tunnel joins a laptop behind a NAT to the shared environment: an Agent
// on the laptop holds one link to a Relay, claims services of a lane, and gets a
// stream for each connection that comes for them.
//
// It knows bytes, claims and names. It never reads a registry, a flag or the
// environment, never dials an address that the other end names, and never lets
// one stream's slow reader hold up another.
//
//	   caller --> Relay.Dial --+                       +--> AgentConfig.Handle --> local process
//	                           |  link: two WebSocket  |
//	                           +====== over TLS =======+
//	                           |  connections, each    |
//	registry's <-- Authority.Out  with many streams    Agent.DialOut <-- program
//	instance
//
// A link is two connections because on one, a lost packet holds up all streams:
// what is small and urgent goes over the other one. Each connection carries
// streams of yamux, and a stream of messages of our own beside them: claims and
// their answers, and which stream has been given up. What yamux cannot say is
// said there: that a side does not want to read on, and why a stream was cut.
package tunnel
