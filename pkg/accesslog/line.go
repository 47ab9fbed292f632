package accesslog

import (
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"lane/pkg/traffic"
)

// The schemas of the lines.
const (
	Schema     = "lane.access/v1"
	LostSchema = "lane.accesslost/v1"
)

// appendLine appends the line of an exchange. It is written by hand because each
// request has one, and because encoding/json leaves in what a terminal acts on.
func appendLine(b []byte, e *traffic.Exchange) []byte {
	l := line{append(b, `{"schema":"`+Schema+`"`...)}
	l.text("time", e.Start.UTC().Format(time.RFC3339Nano))
	l.text("front", string(e.Front))
	l.text("from", e.From)
	l.text("method", e.Method)
	l.text("url", traffic.MaskURL(e.URL))
	l.text("proto", e.Proto)
	l.number("status", int64(e.Status))
	l.number("req_bytes", e.ReqSize)
	l.number("res_bytes", e.ResSize)
	l.key("duration_ms")
	l.b = strconv.AppendFloat(l.b, float64(e.Took.Microseconds())/1000, 'f', -1, 64)
	l.text("service", e.Service)
	l.text("lane", string(e.Lane))
	l.text("tag", e.Tag)
	l.text("instance", e.Instance)
	l.text("decision", string(e.Kind))
	l.text("reason", string(e.Reason))
	l.text("code", string(e.Code))
	l.text("error", e.Err)
	l.text("rule", e.Rule)
	l.text("rule_rev", e.RuleRev)
	l.text("trace_id", e.TraceID)
	l.text("client_trace_id", e.ClientTraceID)
	return append(l.b, "}\n"...)
}

// appendLost appends the line that stands for n exchanges that are not there.
func appendLost(b []byte, at time.Time, n uint64) []byte {
	l := line{append(b, `{"schema":"`+LostSchema+`"`...)}
	l.text("time", at.UTC().Format(time.RFC3339Nano))
	l.number("lost", int64(n))
	return append(l.b, "}\n"...)
}

type line struct{ b []byte }

func (l *line) key(name string) {
	l.b = append(l.b, `,"`...)
	l.b = append(l.b, name...)
	l.b = append(l.b, `":`...)
}

func (l *line) number(name string, n int64) {
	l.key(name)
	l.b = strconv.AppendInt(l.b, n, 10)
}

func (l *line) text(name, s string) {
	l.key(name)
	l.b = appendString(l.b, s)
}

// appendString appends a JSON string. What a terminal acts on is escaped too,
// because logs are read on terminals.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
			i++
		case c >= 0x20 && c < 0x7f:
			b = append(b, c)
			i++
		case c < utf8.RuneSelf:
			b = appendEscape(b, rune(c))
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			i += n
			if unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
				b = utf8.AppendRune(b, r)
				continue
			}
			b = appendEscape(b, r)
		}
	}
	return append(b, '"')
}

func appendEscape(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	if r > 0xffff { // two halves, as JSON has them
		r -= 0x10000
		return appendEscape(appendEscape(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
