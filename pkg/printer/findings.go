package printer

import (
	"bytes"
	"strings"

	"github.com/rivo/uniseg"

	"lane/pkg/doctor"
	"lane/pkg/iostreams"
	"lane/pkg/traffic"
)

var levelRoles = map[doctor.Level]Role{doctor.Well: Good, doctor.Note: Warn, doctor.Wrong: Bad, doctor.Away: Bad}

// PrintFindings writes what lane doctor found: on a terminal in lines of its width,
// off it in one line each.
func PrintFindings(s *iostreams.IOStreams, all []doctor.Finding) error {
	if !s.IsStdoutTTY {
		t := NewTable(s)
		for _, f := range all {
			t.Row(As(levelRoles[f.Level], string(f.Level)), Text(f.Check), Text(f.What), Text(f.Where), Text(f.Do))
		}
		return t.Flush()
	}
	level, check := 0, 0
	for _, f := range all {
		level, check = max(level, len(f.Level)), max(check, len(f.Check))
	}
	indent := level + check + 2*gap
	var b bytes.Buffer
	for _, f := range all {
		b.WriteString(paint(s.Color, levelRoles[f.Level], string(f.Level)))
		b.WriteString(strings.Repeat(" ", level-len(f.Level)+gap))
		b.WriteString(f.Check + strings.Repeat(" ", check-len(f.Check)+gap))
		what := f.What
		if f.Where != "" {
			what += " [" + f.Where + "]"
		}
		block(&b, s, Plain, what, indent, "")
		if f.Do != "" {
			b.WriteString(strings.Repeat(" ", indent))
			block(&b, s, Dim, f.Do, indent, "-> ")
		}
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}

// block writes text from the column indent on, broken at blanks to the terminal's
// width, after a mark under which the next lines are indented too.
func block(b *bytes.Buffer, s *iostreams.IOStreams, r Role, text string, indent int, mark string) {
	width := max(s.Width-indent-len(mark), minLast)
	b.WriteString(mark)
	for i, line := range wrap(traffic.Printable(text), width) {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", indent+len(mark)))
		}
		b.WriteString(paint(s.Color, r, line))
		b.WriteByte('\n')
	}
}

// wrap breaks text at blanks into lines of at most width columns; a word that is
// longer has a line of its own.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case uniseg.StringWidth(line)+1+uniseg.StringWidth(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
