package printer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"lane/pkg/iostreams"
)

// JSON writes v, whose first field has to be its schema ("schema":
// "lane.ls/v1"): indented on a terminal, one line off it.
func JSON(s *iostreams.IOStreams, v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	if s.IsStdoutTTY {
		var in bytes.Buffer
		if err := json.Indent(&in, b, "", "  "); err != nil {
			return fmt.Errorf("indent JSON: %w", err)
		}
		b = in.Bytes()
	}
	_, err = s.Out.Write(append(b, '\n'))
	return err
}

// JSONLine writes v as one line, as a record of a stream (NDJSON).
func JSONLine(s *iostreams.IOStreams, v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = s.Out.Write(append(b, '\n'))
	return err
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // & in a URL stays &
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	// A record whose schema is missing cannot be read by anybody for long.
	if !bytes.HasPrefix(out, []byte(`{"schema":"lane.`)) {
		return nil, fmt.Errorf("write JSON: %T does not begin with its schema", v)
	}
	return escapeControls(out), nil
}

// escapeControls writes as \u escapes what encoding/json leaves as it is but a
// terminal acts on: DEL, C1 controls, and formatting that reorders or hides
// text. Outside of strings JSON has none of them.
func escapeControls(b []byte) []byte {
	if !bytes.ContainsFunc(b, acts) {
		return b
	}
	var out bytes.Buffer
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case !acts(r):
			out.Write(b[:n])
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out.Bytes()
}

func acts(r rune) bool { return r >= 0x7f && r != utf8.RuneError && !unicode.IsPrint(r) }
