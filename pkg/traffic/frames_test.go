package traffic

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"testing"
)

func TestFrames(t *testing.T) {
	frame := func(flag byte, msg string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(msg))), msg...)
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	packed := frame(1, z.String())
	for name, c := range map[string]struct {
		coding string
		body   []byte
		want   []Frame
		rest   int
	}{
		"none":    {},
		"one":     {"", frame(0, "ab"), []Frame{{2, []byte("ab"), true, false, true}}, 0},
		"empty":   {"gzip", append(frame(0, ""), frame(0, "c")...), []Frame{{0, nil, true, false, true}, {1, []byte("c"), true, false, true}}, 0},
		"gzip":    {" GZip", packed, []Frame{{int64(z.Len()), []byte("hello"), true, true, true}}, 0},
		"unsaid":  {"", packed, []Frame{{int64(z.Len()), z.Bytes(), true, true, false}}, 0},
		"not so":  {"identity", packed, []Frame{{int64(z.Len()), z.Bytes(), true, true, false}}, 0},
		"unknown": {"snappy", packed, []Frame{{int64(z.Len()), z.Bytes(), true, true, false}}, 0},
		"broken":  {"gzip", frame(1, z.String()[:20]), []Frame{{20, z.Bytes()[:20], true, true, false}}, 0},
		"cut":     {"gzip", packed[:10], []Frame{{int64(z.Len()), z.Bytes()[:5], false, true, false}}, 0},
		"a head":  {"", append(frame(0, "ab"), 0, 0, 0), []Frame{{2, []byte("ab"), true, false, true}}, 3},
		"a liar":  {"", []byte("\x00\xff\xff\xff\xffx"), []Frame{{1<<32 - 1, []byte("x"), false, false, true}}, 0},
	} {
		got, rest := Frames(c.coding, c.body)
		if len(got) != len(c.want) || rest != c.rest {
			t.Errorf("%s: %+v and %d", name, got, rest)
			continue
		}
		for i, f := range got {
			w := c.want[i]
			if f.Size != w.Size || !bytes.Equal(f.Bytes, w.Bytes) || f.Whole != w.Whole || f.Compressed != w.Compressed || f.Clear != w.Clear {
				t.Errorf("%s: frame %d is %+v, want %+v", name, i, f, w)
			}
		}
	}
}
