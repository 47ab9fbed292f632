// Package yamlline finds the line of what the reader of YAML says is wrong. The reader
// leaves it out where it is the first one, and where it does not know it. It reads no
// document itself.
package yamlline

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Of is the line of an error of the reader, 1 for the first, and what it says without it.
func Of(document []byte, err error) (line int, words string) {
	words = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(words, "line "); ok {
		if number, after, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				return min(max(n, 1), last(document)), after
			}
		}
	}
	if rest, ok := strings.CutPrefix(words, "unknown anchor '"); ok {
		name, _, _ := strings.Cut(rest, "'")
		return lineAt(document, aliasAt(document, name)), words
	}
	if at := unreadable(document); at >= 0 {
		if strings.Contains(words, "UTF-8") {
			words = "it has to be UTF-8, and is not: " + words
		}
		return lineAt(document, at), words
	}
	return 1, words
}

// Second is the line at which a further document begins.
func Second(document []byte) int {
	n, any := 0, false
	for line := range bytes.Lines(document) {
		n++
		text := bytes.TrimSpace(line)
		if any && bytes.HasPrefix(line, []byte("---")) {
			return n
		}
		any = any || len(text) > 0 && text[0] != '#' && text[0] != '%' // of a --- too
	}
	return max(n, 1)
}

// last is the last line that has anything in it: an end that is missing is there.
func last(document []byte) int {
	return lineAt(document, max(len(bytes.TrimRight(document, " \t\r\n"))-1, 0))
}

func lineAt(document []byte, at int) int {
	return 1 + bytes.Count(document[:min(at, len(document))], []byte("\n"))
}

// aliasAt is where *name stands, as a word of its own.
func aliasAt(document []byte, name string) int {
	for from := 0; ; {
		at := bytes.Index(document[from:], []byte("*"+name))
		if at < 0 {
			return 0
		}
		from += at + 1 + len(name)
		if from == len(document) || strings.IndexByte(" \t\r\n,]}", document[from]) >= 0 {
			return from - 1
		}
	}
}

// unreadable is where bytes stand that no YAML has, below 0 if there are none.
func unreadable(document []byte) int {
	r := bytes.NewReader(document)
	for {
		at := len(document) - r.Len()
		c, n, err := r.ReadRune()
		if errors.Is(err, io.EOF) {
			return -1
		}
		if c == utf8.RuneError && n == 1 || unicode.IsControl(c) && !strings.ContainsRune("\t\r\n\u0085", c) {
			return at
		}
	}
}
