package tui

import (
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lane/pkg/traffic"
)

// text makes strings from the wire fit for this screen. Printable takes away
// what acts on a terminal; without utf8 the rest is plain ASCII as well, since a
// terminal that does not agree with us on a character's width breaks every
// column after it.
type text struct{ utf8 bool }

// clean is s, printable. Text that is longer than most bytes is cut first, so
// that a huge header costs nothing.
func (t text) clean(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	s = traffic.Printable(s)
	if t.utf8 || isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			b.WriteString(`\u{` + strconv.FormatInt(int64(r), 16) + "}")
		}
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// rawFor is how many bytes of a raw string are enough to fill w columns.
func rawFor(w int) int { return 8*w + 64 }

// fit makes s exactly w columns wide: cut, with a tilde to say so, or padded.
func fit(s string, w int) string {
	if w <= 0 {
		return ""
	}
	s = cut(s, w)
	return s + strings.Repeat(" ", max(0, w-ansi.StringWidth(s)))
}

// fitLeft is fit for numbers: padded on the left.
func fitLeft(s string, w int) string {
	s = cut(s, w)
	return strings.Repeat(" ", max(0, w-ansi.StringWidth(s))) + s
}

// cut makes s at most w columns wide.
func cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if len(s) <= w && isASCII(s) && !strings.Contains(s, "\x1b") {
		return s
	}
	return ansi.Truncate(s, w, "~")
}

// wrap breaks s into lines of at most w columns, at blanks where it can; at most
// most lines, the last one cut.
func wrap(s string, w, most int) []string {
	if w <= 0 || most <= 0 {
		return nil
	}
	var lines []string
	for s != "" {
		if len(lines) == most-1 || ansi.StringWidth(s) <= w {
			return append(lines, cut(s, w))
		}
		line := ansi.Truncate(s, w, "")
		if line == "" { // a character wider than the column
			return append(lines, "~")
		}
		rest := s[len(line):]
		if i := strings.LastIndexByte(line, ' '); i > w/2 && !strings.HasPrefix(rest, " ") {
			line, rest = line[:i], s[i:]
		}
		lines = append(lines, strings.TrimRight(line, " "))
		s = strings.TrimLeft(rest, " ")
	}
	return lines
}

// millis is a duration as the list shows it: whole milliseconds.
func millis(d time.Duration) string {
	if ms := d.Milliseconds(); ms < 100_000 {
		return strconv.FormatInt(ms, 10)
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// span is a duration for people: 31 ms, 2.0 s, 3 min.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 2*time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return strconv.FormatInt(int64(d/time.Minute), 10) + " min"
}

// age is how long ago something was: 42s, 3m, 2h, 5d.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	case d < 2*time.Hour:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	case d < 48*time.Hour:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	}
	return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
}

// size is a number of bytes: 412 B, 1.2 kB, 3.4 MB.
func size(n int64) string {
	switch f := float64(n); {
	case n < 1000:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1_000_000:
		return strconv.FormatFloat(f/1e3, 'f', 1, 64) + " kB"
	case n < 1_000_000_000:
		return strconv.FormatFloat(f/1e6, 'f', 1, 64) + " MB"
	default:
		return strconv.FormatFloat(f/1e9, 'f', 1, 64) + " GB"
	}
}

// count is a number with commas: 5,000.
func count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural is count and a noun: 1 service, 2 services.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(uint64(max(n, 0))) + " " + noun + "s"
}

// shellQuote makes one word of s for a POSIX shell.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
