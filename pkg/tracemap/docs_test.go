package tracemap

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// rows are the cells of the page's table with the given head, without their
// code marks.
func rows(t *testing.T, head string) (out [][]string) {
	t.Helper()
	b, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(b), "\n| "+head+" |")
	if !ok {
		t.Fatalf("no table that begins with %q", head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, line := range strings.Split(table, "\n")[2:] {
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "| "), "|") {
			cells = append(cells, strings.Trim(cell, " `"))
		}
		out = append(out, cells)
	}
	return out
}

func TestPageHasEverySource(t *testing.T) {
	page := rows(t, "header")
	if len(page) != len(auto) {
		t.Fatalf("the page has %d headers, want %d", len(page), len(auto))
	}
	for i, cells := range page {
		if !strings.EqualFold(cells[0], auto[i].header) {
			t.Errorf("row %d is about %s, want %s", i, cells[0], auto[i].header)
			continue
		}
		k := read(t, cells[0], (&format{Header: cells[0], Value: cells[1]}).get)
		if k.Len() != 1 || k.ID().String() != cells[2] || k.At(0).String() != cells[3] {
			t.Errorf("%s: id %s, keys %v, want %v", cells[0], k.ID(), text(&k), cells[2:])
		}
	}
}

// The page names each header that does not pass where a trace begins.
func TestPageHasEveryName(t *testing.T) {
	b, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	var all Sources
	for _, name := range all.Names() {
		if !strings.Contains(string(b), "`"+name+"`") {
			t.Errorf("the page lacks %s", name)
		}
	}
}

func TestPageHasTheBounds(t *testing.T) {
	want := []string{strconv.Itoa(DefaultSize), DefaultTTL.String(), strconv.Itoa(maxKeys), strconv.Itoa(maxText)}
	page := rows(t, "what")
	if len(page) != len(want) {
		t.Fatalf("%d bounds, want %d", len(page), len(want))
	}
	for i, cells := range page {
		if cells[1] != want[i] {
			t.Errorf("%s: %s, want %s", cells[0], cells[1], want[i])
		}
	}
}
