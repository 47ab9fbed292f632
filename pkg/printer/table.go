package printer

import (
	"bytes"
	"io"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"lane/pkg/iostreams"
	"lane/pkg/traffic"
)

// Role is what a piece of text means; a terminal colors it by that.
type Role uint8

// The roles.
const (
	Plain Role = iota
	Good       // as it should be
	Warn       // look at it
	Bad        // broken
	Dim        // of less weight
	Lane       // a lane's name
	Head       // a heading
)

// codes are the SGR parameters of the roles, from the terminal's own sixteen
// colors, so that a person's color scheme holds.
var codes = [...]string{Good: "32", Warn: "33", Bad: "31", Dim: "2", Lane: "36", Head: "1"}

// paint wraps text that is printable already in its role's color.
func paint(color bool, r Role, s string) string {
	if !color || r == Plain || s == "" {
		return s
	}
	return "\x1b[" + codes[r] + "m" + s + "\x1b[0m"
}

// Cell is one cell of a table.
type Cell struct {
	Text string
	Role Role
}

// Text is a cell without color.
func Text(s string) Cell { return Cell{Text: s} }

// As is a cell with a role.
func As(r Role, s string) Cell { return Cell{Text: s, Role: r} }

// Time is a cell with a time: of day on a terminal, RFC 3339 off it. The zero
// time is empty.
func Time(s *iostreams.IOStreams, t time.Time) Cell {
	switch {
	case t.IsZero():
		return Cell{}
	case s.IsStdoutTTY:
		return As(Dim, t.Local().Format("15:04:05.000"))
	}
	return Text(t.Format("2006-01-02T15:04:05.000Z07:00"))
}

// Table is rows of cells. Nothing is written before Flush.
type Table struct {
	out   io.Writer
	tty   bool
	color bool
	width int
	head  []string
	rows  [][]Cell
	whole bool
}

// NewTable makes a table for s.Out. head may be empty: no header line then.
func NewTable(s *iostreams.IOStreams, head ...string) *Table {
	return &Table{out: s.Out, tty: s.IsStdoutTTY, color: s.Color, width: s.Width, head: head}
}

// Whole keeps the last column in full; without it a terminal's width cuts it.
func (t *Table) Whole() *Table {
	t.whole = true
	return t
}

// Row adds a row. The texts may hold anything: they are made printable here.
func (t *Table) Row(cells ...Cell) {
	row := make([]Cell, len(cells))
	for i, c := range cells {
		row[i] = Cell{Text: traffic.Printable(c.Text), Role: c.Role}
	}
	t.rows = append(t.rows, row)
}

// Flush writes the table with one Write, so that lines of others do not get
// between its own.
func (t *Table) Flush() error {
	var b bytes.Buffer
	if t.tty {
		t.aligned(&b)
	} else {
		for _, row := range t.rows {
			for i, c := range row {
				if i > 0 {
					b.WriteByte('\t')
				}
				b.WriteString(paint(t.color, c.Role, c.Text))
			}
			b.WriteByte('\n')
		}
	}
	t.rows = nil
	_, err := t.out.Write(b.Bytes())
	return err
}

// gap is the blank columns between two cells on a terminal.
const gap = 2

func (t *Table) aligned(b *bytes.Buffer) {
	if len(t.rows) == 0 {
		return // a header over nothing says nothing
	}
	rows := t.rows
	if len(t.head) > 0 {
		head := make([]Cell, len(t.head))
		for i, h := range t.head {
			head[i] = As(Head, h)
		}
		rows = append([][]Cell{head}, rows...)
	}
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			// The last cell of a row stretches no column: nothing stands after it.
			if i < len(row)-1 || len(t.head) > 0 {
				widths[i] = max(widths[i], uniseg.StringWidth(c.Text))
			}
		}
	}
	for _, row := range rows {
		last := len(row) - 1
		for last > 0 && row[last].Text == "" {
			last-- // no trailing blanks
		}
		at := 0
		for i := 0; i <= last; i++ {
			text := row[i].Text
			if i == len(widths)-1 && !t.whole && t.width > 0 {
				text = cut(text, max(t.width-at, minLast))
			}
			b.WriteString(paint(t.color, row[i].Role, text))
			if i < last {
				pad := widths[i] - uniseg.StringWidth(text) + gap
				b.WriteString(strings.Repeat(" ", max(pad, gap)))
				at += widths[i] + gap
			}
		}
		b.WriteByte('\n')
	}
}

// minLast is the least width of a last column that is cut.
const minLast = 10

// cut shortens s to width columns, with an ellipsis where something went.
func cut(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	var b strings.Builder
	used, state, rest := 0, -1, s
	for rest != "" {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+w > width-1 {
			break
		}
		b.WriteString(cluster)
		used += w
	}
	return b.String() + "…"
}
