// Package ca is the certificate authority of one user: it makes it, keeps its
// key private, and issues certificates for the hosts whose TLS is to be opened.
// It never replaces an authority, never writes a leaf to disk, never changes what
// a machine trusts, and never issues what the authority's own constraints forbid.
package ca
