// Package har writes exchanges as an HTTP Archive, version 1.2, which the
// developer tools of browsers open. It masks secrets, always, and never reads or
// writes a file.
package har
