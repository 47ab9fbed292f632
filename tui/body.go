package tui

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"lane/pkg/traffic"
)

// bodyLinesMost and hexMost bound what is drawn of a body, in lines and bytes.
const (
	bodyLinesMost = 2000
	hexMost       = 512
)

// bodyLines is a body for reading: JSON indented, forms a pair on a line, gRPC
// message by message, the beginning of what is binary in hex. n is how long the
// body was in all, and r what is known of its messages.
func bodyLines(b *traffic.Body, n int64, h traffic.Head, r read, t text, w int) []cell {
	p := &page{t: t, w: w}
	s := traffic.Show(b, h)
	title := "Body, " + size(n)
	if b.Cut {
		title += ", the first " + size(int64(len(b.Bytes))) + " were kept"
	}
	if s.Left != "" {
		p.put(0, title+": not shown, "+s.Left, warnText)
		return p.lines
	}
	if s.Coding != "" {
		title += ", " + s.Coding + ", " + size(int64(s.Len)) + " in clear"
	}
	if s.Charset != "" {
		title += ", " + s.Charset
	}
	p.put(0, title+":", bold)
	switch s.Kind {
	case traffic.BodyGRPC:
		p.frames(s.Bytes, h.Get("Grpc-Encoding"), b.Cut, r)
	case traffic.BodyBinary:
		p.hex(s.Bytes)
	case traffic.BodyForm:
		for pair := range bytes.SplitSeq(s.Bytes, []byte("&")) {
			p.put(0, string(pair), plain)
		}
	default:
		masked := s.Bytes
		var out bytes.Buffer
		if s.Kind == traffic.BodyJSON && json.Indent(&out, masked, "", "  ") == nil {
			masked = out.Bytes()
		}
		if s.Kind == traffic.BodyMultipart && traffic.KindOf("", "", masked) == traffic.BodyBinary {
			p.hex(masked)
		} else {
			p.text(masked)
		}
	}
	return p.lines
}

// text puts lines as they are, indents too.
func (p *page) text(b []byte) {
	n := 0
	for line := range bytes.Lines(b) {
		if n++; n > bodyLinesMost {
			p.put(0, "... and more", faint)
			return
		}
		s := strings.ReplaceAll(strings.TrimRight(string(line), "\r\n"), "\t", "    ")
		body := strings.TrimLeft(s, " ")
		indent := min(len(s)-len(body), p.w/2)
		for _, l := range wrap(p.t.clean(body, 1<<16), p.w-indent, 50) {
			p.lines = append(p.lines, cell{strings.Repeat(" ", indent) + l, plain})
		}
		if body == "" {
			p.blank()
		}
	}
}

// hex puts the beginning of bytes as offset, hex and characters.
func (p *page) hex(b []byte) {
	per := 16
	if p.w < 76 {
		per = 8
	}
	for at := 0; at < min(len(b), hexMost); at += per {
		row := b[at:min(at+per, len(b), hexMost)]
		var hex, chars strings.Builder
		for _, c := range row {
			fmt.Fprintf(&hex, "%02x ", c)
			if c < 0x20 || c > 0x7e {
				c = '.'
			}
			chars.WriteByte(c)
		}
		p.lines = append(p.lines, cell{cut(fmt.Sprintf("%06x  %s %s", at, fit(hex.String(), 3*per), chars.String()), p.w), plain})
	}
	if len(b) > hexMost {
		p.put(0, "... "+size(int64(len(b)-hexMost))+" more", faint)
	}
}

// frames puts the messages of a gRPC body: as JSON where they have been read by
// their description, else their fields by number.
func (p *page) frames(b []byte, coding string, cutOff bool, r read) {
	frames, rest := traffic.Frames(coding, b)
	byName := func(i int) bool { return i < len(r.json) && r.json[i] != "" }
	if r.note != "" {
		note := r.note
		for i, f := range frames {
			if f.Whole && !byName(i) {
				note = "Fields by number, not by name: " + note
				break
			}
		}
		p.put(0, note, faint)
	}
	for i, f := range frames {
		how := ""
		switch {
		case f.Compressed && f.Clear:
			how = ", " + coding + ", " + size(int64(len(f.Bytes))) + " in clear"
		case f.Compressed:
			how = ", compressed"
		}
		p.put(0, "Message "+count(uint64(i+1))+", "+size(f.Size)+how, bold)
		if byName(i) {
			masked := traffic.MaskBody(traffic.BodyJSON, []byte(r.json[i]))
			var out bytes.Buffer
			if json.Indent(&out, masked, "", "  ") == nil {
				masked = out.Bytes()
			}
			p.text(masked)
		} else if lines, ok := protoLines(f.Bytes, 0); ok && f.Whole && f.Clear {
			for _, l := range lines {
				p.put(2, l, plain)
			}
		} else {
			p.hex(f.Bytes)
		}
		if !f.Whole && cutOff {
			p.put(2, "(cut)", faint)
		}
	}
	if rest > 0 {
		p.put(0, "then "+size(int64(rest))+" of a frame's head", faint)
	}
}

// protoLines reads a protobuf message without its description: fields have
// numbers, and what is a string, a message or bytes is a guess. ok is false for
// what is no message.
func protoLines(b []byte, depth int) (lines []string, ok bool) {
	if depth > 8 {
		return nil, false
	}
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 || key>>3 == 0 || key>>3 > 1<<29 {
			return nil, false
		}
		b = b[n:]
		field := fmt.Sprint(key >> 3)
		switch key & 7 {
		case 0:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, false
			}
			lines, b = append(lines, fmt.Sprintf("%s: %d", field, v)), b[n:]
		case 1:
			if len(b) < 8 {
				return nil, false
			}
			lines, b = append(lines, fmt.Sprintf("%s: 0x%016x", field, binary.LittleEndian.Uint64(b))), b[8:]
		case 5:
			if len(b) < 4 {
				return nil, false
			}
			lines, b = append(lines, fmt.Sprintf("%s: 0x%08x", field, binary.LittleEndian.Uint32(b))), b[4:]
		case 2:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return nil, false
			}
			v := b[n : n+int(size)]
			b = b[n+int(size):]
			lines = append(lines, protoValue(field, v, depth)...)
		default:
			return nil, false
		}
	}
	return lines, true
}

func protoValue(field string, v []byte, depth int) []string {
	// A control character is more often the number of a field than part of a text.
	if len(v) > 0 && traffic.KindOf("text/plain", "", v) != traffic.BodyBinary && bytes.IndexFunc(v, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' || r == 0x7f
	}) < 0 {
		return []string{fmt.Sprintf("%s: %q", field, v)}
	}
	if inner, ok := protoLines(v, depth+1); ok && len(v) > 0 {
		out := []string{field + ": {"}
		for _, l := range inner {
			out = append(out, "  "+l)
		}
		return append(out, "}")
	}
	if len(v) == 0 {
		return []string{field + `: ""`}
	}
	return []string{fmt.Sprintf("%s: %d bytes %.64x", field, len(v), v)}
}
