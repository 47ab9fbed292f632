package control

import (
	"encoding/binary"
	"errors"
	"time"

	"lane/pkg/traffic"
)

// rowsType names the form in which exchanges go to a viewer of this version. JSON is
// for whoever does not ask for it: thousands of rows a second cost more in JSON than
// their requests did. Another form has another number, so that sessions and viewers
// of different versions still understand each other.
const rowsType = "application/x-lane-rows-2"

// errRows says that bytes are no rows.
var errRows = errors.New("what the session sent cannot be read: is it another version?")

// coder goes through a batch, field by field, and either appends each to out or
// reads it from in: the two cannot differ in what they know of.
type coder struct {
	reading bool
	out     []byte
	in      string // what is left of it; strings that are read are parts of it
	bad     bool
}

// appendBatch appends a batch, of the heads of its rows what heads says: their
// secrets are masked.
func appendBatch(dst []byte, b *traffic.Batch, heads bool) []byte {
	c := coder{out: dst}
	c.batch(b, heads)
	return c.out
}

// readBatch reads what appendBatch has written. The strings of its rows are parts
// of in.
func readBatch(in string) (b traffic.Batch, err error) {
	c := coder{reading: true, in: in}
	c.batch(&b, false)
	if c.bad || c.in != "" {
		return traffic.Batch{}, errRows
	}
	return b, nil
}

// rowLeast is less than any row takes.
const rowLeast = 30

func (c *coder) batch(b *traffic.Batch, heads bool) {
	unsigned(c, &b.Lost)
	unsigned(c, &b.More)
	left := list(c, &b.Left, rowLeast)
	for i := range left {
		t := &left[i]
		unsigned(c, &t.N)
		unsigned(c, &t.Failed)
		c.time(&t.First)
		if c.reading {
			t.Last = new(traffic.Exchange)
		}
		c.exchange(t.Last)
	}
	flag(c, &heads)
	rows := list(c, &b.Rows, rowLeast)
	for i := range rows {
		e := &rows[i]
		c.exchange(e)
		if heads {
			c.head(&e.ReqHeader)
			c.head(&e.ResHeader)
		}
	}
}

// exchange is all of an exchange but its heads and bodies.
func (c *coder) exchange(e *traffic.Exchange) {
	unsigned(c, &e.Seq)
	c.time(&e.Start)
	signed(c, &e.Took)
	signed(c, &e.First)
	signed(c, &e.DNS)
	signed(c, &e.Conn)
	text(c, &e.Front)
	text(c, &e.From)
	text(c, &e.Method)
	text(c, &e.URL)
	text(c, &e.Proto)
	text(c, &e.Service)
	text(c, &e.Tag)
	text(c, &e.Lane)
	text(c, &e.Kind)
	text(c, &e.Reason)
	text(c, &e.Code)
	text(c, &e.Rule)
	text(c, &e.RuleRev)
	text(c, &e.Guard)
	text(c, &e.Note)
	text(c, &e.Instance)
	text(c, &e.Addr)
	signed(c, &e.Tries)
	signed(c, &e.Status)
	signed(c, &e.ReqSize)
	signed(c, &e.ResSize)
	text(c, &e.Err)
	text(c, &e.TraceID)
	text(c, &e.ClientTraceID)
	warnings := list(c, &e.Warnings, 1)
	for i := range warnings {
		text(c, &warnings[i])
	}
}

func (c *coder) head(h *traffic.Head) {
	var fields string
	cut := h.Cut()
	if !c.reading {
		fields = h.Masked()
	}
	text(c, &fields)
	flag(c, &cut)
	if c.reading {
		*h = traffic.HeadAgain(fields, cut)
	}
}

func (c *coder) number() uint64 {
	n, size := uint64(0), 0
	for shift := 0; size < len(c.in) && shift < 64; shift += 7 {
		b := c.in[size]
		size++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			c.in = c.in[size:]
			return n
		}
	}
	c.bad, c.in = true, ""
	return 0
}

func unsigned(c *coder, n *uint64) {
	if c.reading {
		*n = c.number()
		return
	}
	c.out = binary.AppendUvarint(c.out, *n)
}

func signed[N ~int | ~int64](c *coder, n *N) {
	if c.reading {
		u := c.number()
		*n = N(int64(u>>1) ^ -int64(u&1))
		return
	}
	c.out = binary.AppendVarint(c.out, int64(*n))
}

func flag(c *coder, f *bool) {
	n := uint64(0)
	if *f {
		n = 1
	}
	unsigned(c, &n)
	*f = n != 0
}

func text[S ~string](c *coder, s *S) {
	if !c.reading {
		c.out = append(binary.AppendUvarint(c.out, uint64(len(*s))), *s...)
		return
	}
	n := c.number()
	if n > uint64(len(c.in)) {
		c.bad, c.in = true, ""
		return
	}
	*s, c.in = S(c.in[:n]), c.in[n:]
}

// time is a length in one byte, and then time's own form.
func (c *coder) time(t *time.Time) {
	if !c.reading {
		at := len(c.out)
		out, err := t.AppendBinary(append(c.out, 0))
		c.bad = c.bad || err != nil
		c.out = out
		c.out[at] = byte(len(out) - at - 1)
		return
	}
	var b [32]byte
	n := 0
	if len(c.in) > 0 {
		n = int(c.in[0])
	}
	if n == 0 || n > len(b) || n >= len(c.in) {
		c.bad, c.in = true, ""
		return
	}
	copy(b[:], c.in[1:1+n])
	c.in = c.in[1+n:]
	c.bad = c.bad || t.UnmarshalBinary(b[:n]) != nil
}

// list is the elements of a list, to be gone through. One takes at least least
// bytes: nobody's number makes us ask for more memory than there were bytes.
func list[E any](c *coder, all *[]E, least int) []E {
	n := uint64(len(*all))
	unsigned(c, &n)
	if c.reading && n > 0 {
		if n > uint64(len(c.in)/least) {
			c.bad, c.in = true, ""
			return nil
		}
		*all = make([]E, n)
	}
	return *all
}
