// Package describe reads the messages of gRPC bodies by the descriptions that their
// server gives of them, by server reflection. It asks a server only when somebody
// looks at an exchange, by the way that it is given, and keeps what it was told for a
// minute. It knows no lane and opens no connection itself.
package describe
