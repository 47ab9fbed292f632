// Package http1 reads the heads and bodies of HTTP/1.1 messages (RFC 9112) as
// the bytes that they are: fields keep their letter case, their order and their
// spelling, and what two programs could read differently is refused instead of
// being mended.
//
// It never connects, never decides where a message goes, and holds nothing of a
// message but what is in its buffer.
package http1
