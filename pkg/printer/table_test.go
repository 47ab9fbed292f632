package printer

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lane/pkg/iostreams"
)

// terminal returns streams that claim a terminal without color.
func terminal(width int) (*iostreams.IOStreams, *bytes.Buffer) {
	s, _, out, _ := iostreams.Test()
	s.IsStdoutTTY, s.Width = true, width
	return s, out
}

func piped() (*iostreams.IOStreams, *bytes.Buffer) {
	s, _, out, _ := iostreams.Test()
	return s, out
}

func fill(t *Table) error {
	t.Row(As(Lane, "dev-alice"), As(Good, "up"), Text("order-service"))
	t.Row(As(Lane, "bob"), As(Bad, "no instance"), Text("a very long list of services that does not fit"))
	return t.Flush()
}

func TestTableOnATerminalIsAligned(t *testing.T) {
	s, out := terminal(40)
	if err := fill(NewTable(s, "LANE", "STATE", "SERVICES")); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"LANE       STATE        SERVICES\n" +
		"dev-alice  up           order-service\n" +
		"bob        no instance  a very long lis…\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestTableOffATerminalIsTSV(t *testing.T) {
	s, out := piped()
	if err := fill(NewTable(s, "LANE", "STATE", "SERVICES")); err != nil {
		t.Fatal(err)
	}
	want := "dev-alice\tup\torder-service\nbob\tno instance\ta very long list of services that does not fit\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestTableColorsByRoleOnlyWhenAsked(t *testing.T) {
	s, out := terminal(80)
	s.Color = true
	if err := fill(NewTable(s, "LANE", "STATE", "SERVICES").Whole()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x1b[1mLANE\x1b[0m", "\x1b[36mdev-alice\x1b[0m", "\x1b[32mup\x1b[0m", "\x1b[31mno instance\x1b[0m", "not fit\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
	s, out = terminal(80)
	if err := fill(NewTable(s, "LANE")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("color though none is wanted: %q", out)
	}
}

func TestTableNeverPassesControlBytes(t *testing.T) {
	const evil = "a\x1b[2Jb\tc\nd\u009be\x7ff\u202eg\xff"
	for _, tty := range []bool{true, false} {
		s, out := terminal(200)
		s.IsStdoutTTY = tty
		table := NewTable(s)
		table.Row(Text(evil), Text("x"))
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(out.Bytes(), "\x1b\x7f\u009b\u202e\xff") || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
			t.Errorf("tty %v: control bytes in %q", tty, out)
		}
		if !strings.Contains(out.String(), `a\x1b[2Jb`) {
			t.Errorf("tty %v: the escape is not shown in %q", tty, out)
		}
	}
}

func TestTableCountsWideCharacters(t *testing.T) {
	s, out := terminal(80)
	table := NewTable(s, "OWNER", "X")
	table.Row(Text("愛麗絲"), Text("1"))
	table.Row(Text("bob"), Text("2"))
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "OWNER   X\n愛麗絲  1\nbob     2\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if got := cut("愛麗絲愛麗絲", 6); got != "愛麗…" {
		t.Errorf("cut = %q", got)
	}
}

func TestEmptyTablePrintsNothing(t *testing.T) {
	s, out := terminal(80)
	if err := NewTable(s, "LANE").Flush(); err != nil || out.Len() > 0 {
		t.Errorf("an empty table prints %q, %v", out, err)
	}
}

func TestTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	s, _ := piped()
	if got := Time(s, at).Text; got != "2026-01-02T03:04:05.006Z" {
		t.Errorf("off a terminal: %q", got)
	}
	s, _ = terminal(80)
	if got := Time(s, at).Text; got != at.Local().Format("15:04:05.000") {
		t.Errorf("on a terminal: %q", got)
	}
	if got := Time(s, time.Time{}).Text; got != "" {
		t.Errorf("the zero time is %q", got)
	}
}
