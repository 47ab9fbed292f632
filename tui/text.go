package tui

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"lane/pkg/traffic"
)

// text makes strings from the wire fit for this screen. Printable takes away
// what acts on a terminal; without utf8 the rest is plain ASCII as well, since a
// terminal that does not agree with us on a character's width breaks every
// column after it. With utf8 a character still has to stand alone: terminals
// disagree most on what is joined, and a mark at the start of one column would
// join the blank of the column before it.
type text struct{ utf8 bool }

// clean is s, printable. Text that is longer than most bytes is cut first, so
// that a huge header costs nothing.
func (t text) clean(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	s = traffic.Printable(s)
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 || t.utf8 && alone(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(`\u{` + strconv.FormatInt(int64(r), 16) + "}")
		}
	}
	return b.String()
}

// alone reports whether r never joins the characters beside it: no combining
// mark, no half of a flag, no skin tone, no Hangul letter that waits for others.
func alone(r rune) bool {
	switch {
	case unicode.Is(unicode.M, r), unicode.Is(unicode.Prepended_Concatenation_Mark, r),
		unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Other_Grapheme_Extend, r):
		return false
	case r >= 0x1f1e6 && r <= 0x1f1ff, r >= 0x1f3fb && r <= 0x1f3ff: // flags, skin tones
		return false
	case r >= 0x1100 && r <= 0x11ff, r >= 0xa960 && r <= 0xa97f, r >= 0xd7b0 && r <= 0xd7ff: // Hangul letters
		return false
	case r == 0x0e33, r == 0x0eb3: // vowels that lean on the letter before
		return false
	}
	// Letters that lean on the one after, in scripts that no URL is in.
	return r != 0x0d4e && r != 0x111c2 && r != 0x111c3 && r != 0x1193f && r != 0x11941 &&
		r != 0x11a3a && (r < 0x11a84 || r > 0x11a89) && r != 0x11d46 && r != 0x11f02
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
	return s + strings.Repeat(" ", max(0, w-wide(s)))
}

// fitLeft is fit for numbers: padded on the left.
func fitLeft(s string, w int) string {
	s = cut(s, w)
	return strings.Repeat(" ", max(0, w-wide(s))) + s
}

// cut makes s, clean text without attributes, at most w columns wide.
func cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	s = enough(s, w)
	if isASCII(s) {
		if len(s) <= w {
			return s
		}
		return s[:w-1] + "~"
	}
	return ansi.Truncate(s, w, "~")
}

// enough is a part of s that is wider than w columns, or all of it: a clean
// character has at most four bytes and at least one column. It keeps the price
// of a long text down to what can be seen of it.
func enough(s string, w int) string {
	if most := 4 * (w + 2); len(s) > most {
		return s[:most]
	}
	return s
}

// wrap breaks s into lines of at most w columns, at blanks where it can; at most
// most lines, the last one cut.
func wrap(s string, w, most int) []string {
	if w <= 0 || most <= 0 {
		return nil
	}
	var lines []string
	for s != "" {
		head := enough(s, w)
		if len(lines) == most-1 || len(head) == len(s) && wide(s) <= w {
			return append(lines, cut(s, w))
		}
		line := ansi.Truncate(head, w, "")
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

// millis is a duration as the list shows it: rounded to whole milliseconds, which are
// never 0, for nothing takes no time.
func millis(d time.Duration) string {
	switch ms := d.Round(time.Millisecond).Milliseconds(); {
	case d < time.Millisecond:
		return "<1"
	case ms < 100_000:
		return strconv.FormatInt(ms, 10)
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// span is a duration for people: 0.4 ms, 31 ms, 12.0 s, 3 min.
func span(d time.Duration) string {
	switch {
	case d < 100*time.Microsecond:
		return "<0.1 ms"
	case d < time.Millisecond:
		return "0." + strconv.FormatInt(int64(d/(100*time.Microsecond)), 10) + " ms"
	case d < 10*time.Millisecond: // in tenths, as its parts are
		return phase(d) + " ms"
	case d < 10*time.Second:
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + " ms"
	case d < 2*time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return strconv.FormatInt(int64(d/time.Minute), 10) + " min"
}

// phase is a part of an exchange's time in milliseconds: 0 is none at all.
func phase(d time.Duration) string {
	switch {
	case d <= 0:
		return "0"
	case d < 100*time.Microsecond:
		return "<0.1"
	case d < 10*time.Millisecond:
		return strings.TrimSuffix(strconv.FormatFloat(float64(d/(100*time.Microsecond))/10, 'f', 1, 64), ".0")
	}
	return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) // as the list has it
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

// lasted is a span of some minutes, in steps of ten seconds: 34s, 1m50s, 5m; a longer one
// as age has it.
func lasted(d time.Duration) string {
	d = max(d, 0)
	if d < time.Minute || d >= 10*time.Minute {
		return age(d)
	}
	s := strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	if rest := d % time.Minute / (10 * time.Second); rest > 0 {
		s += strconv.FormatInt(int64(rest)*10, 10) + "s"
	}
	return s
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
func plural(n int, noun string) string { return pluralOf(uint64(max(n, 0)), noun) }

func pluralOf(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}
