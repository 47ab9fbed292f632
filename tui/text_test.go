package tui

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"lane/pkg/traffic"
)

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in, want string
		w        int
	}{
		{"abc", "abc  ", 5}, {"abcdef", "abcd~", 5}, {"abcde", "abcde", 5}, {"", "  ", 2}, {"abc", "~", 1}, {"abc", "", 0},
		{"订单服务", "订单~", 5}, {"订单服务", "订~ ", 4}, {"订", "~", 1},
	} {
		if got := fit(c.in, c.w); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.in, c.w, got, c.want)
		}
	}
	if got := fitLeft("42", 5); got != "   42" {
		t.Errorf("fitLeft: %q", got)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in      string
		w, most int
		want    string
	}{
		{"one two three", 9, 9, "one two|three"},
		{"one two", 7, 9, "one two"},
		{"/a/very/long/path", 6, 9, "/a/ver|y/long|/path"},
		{"a b c d e f", 3, 2, "a b|c ~"},
		{"", 5, 5, ""},
		{"订单服务", 3, 9, "订|单|服|务"},
		{"订", 1, 9, "~"},
		{"abc", 0, 9, ""},
	} {
		if got := strings.Join(wrap(c.in, c.w, c.most), "|"); got != c.want {
			t.Errorf("wrap(%q, %d, %d) = %q, want %q", c.in, c.w, c.most, got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		millis(0): "<1", millis(999 * time.Microsecond): "<1", millis(time.Millisecond): "1",
		span(0): "<0.1 ms", span(450 * time.Microsecond): "0.4 ms", span(time.Millisecond): "1 ms",
		millis(42 * time.Millisecond): "42", millis(99_999 * time.Millisecond): "99999", millis(3 * time.Minute): "180s",
		phase(0): "0", phase(-1): "0", phase(time.Nanosecond): "<0.1", phase(460 * time.Microsecond): "0.4", phase(9 * time.Millisecond): "9",
		phase(31 * time.Millisecond): "31", phase(3 * time.Minute): "180000",
		span(31 * time.Millisecond): "31 ms", span(12 * time.Second): "12.0 s", span(5 * time.Minute): "5 min",
		age(42 * time.Second): "42s", age(-time.Second): "0s", age(3 * time.Minute): "3m", age(3 * time.Hour): "3h", age(72 * time.Hour): "3d",
		size(412): "412 B", size(1234): "1.2 kB", size(3_400_000): "3.4 MB", size(5e9): "5.0 GB",
		count(5): "5", count(5000): "5,000", count(1234567): "1,234,567",
		plural(1, "row"): "1 row", plural(0, "row"): "0 rows", plural(1200, "row"): "1,200 rows",
		traffic.ShellWord("http://a/b?c=d"): "'http://a/b?c=d'", traffic.ShellWord("http://a/b"): "http://a/b",
		traffic.ShellWord("it's"): `'it'\''s'`, traffic.ShellWord(""): "''",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestClean(t *testing.T) {
	for _, c := range []struct {
		in, ascii, utf8 string
	}{
		{"/api", "/api", "/api"},
		{"é订", `\u{e9}\u{8ba2}`, "é订"},
		{"e\u0301", `e\u{301}`, `e\u{301}`},
		{"\x1b[m", `\x1b[m`, `\x1b[m`},
		{"🇩🇪", `\u{1f1e9}\u{1f1ea}`, `\u{1f1e9}\u{1f1ea}`},
	} {
		if got := (text{}).clean(c.in, 100); got != c.ascii {
			t.Errorf("%q: %q, want %q", c.in, got, c.ascii)
		}
		if got := (text{utf8: true}).clean(c.in, 100); got != c.utf8 {
			t.Errorf("%q with utf8: %q, want %q", c.in, got, c.utf8)
		}
	}
	if got := (text{}).clean(strings.Repeat("x", 1000), 10); len(got) != 10 {
		t.Errorf("%d bytes of at most 10", len(got))
	}
}

// TestAlone: a character that we let through has the same width beside every
// other one, by our own measure.
func TestAlone(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !unicode.IsPrint(r) || !alone(r) {
			continue
		}
		s := string(r)
		w := ansi.StringWidth(s)
		if got := ansi.StringWidth(" " + s + " " + s + s + "a"); got != 3*w+3 {
			t.Errorf("%U is %d columns wide alone and joins its neighbours (%d)", r, w, got)
		}
		if w < 1 || w > 2 {
			t.Errorf("%U is %d columns wide", r, w)
		}
	}
}
