package cmd

import (
	"strings"
	"testing"
)

// An id is taken as it is shown, and out of a traceparent; nothing else is cut.
func TestReadTraceID(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	long := strings.Repeat("a", 128)
	for in, want := range map[string]string{
		id: id, " " + id + "\n": id, "00-" + id + "-00f067aa0ba902b7-01": id,
		"19603cb9-4729-4b3d-aea1-8eb7b646c3e6": "19603cb9-4729-4b3d-aea1-8eb7b646c3e6", "a-b-c-d": "a-b-c-d", "A.74.1": "A.74.1", "order/7": "order/7", long: long,
		"": "", " ": "", "a b": "", "a\x1b[0m": "", "ü": "", long + "a": "",
	} {
		got, err := readTraceID(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}
