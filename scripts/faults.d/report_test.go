//go:build unix

package faults

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// report collects the rows of the page.
var report pages

type pages struct {
	mu    sync.Mutex
	rows  []row
	lines map[int]string // beside the table, by their order
}

// row is what one fault did.
type row struct {
	order                             int
	fault                             string
	sent, failed, misrouted, fellBack int
	again                             time.Duration // until all was right
	note                              string
}

func (p *pages) add(t *testing.T, r row) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows = append(p.rows, r)
	t.Log(r.markdown())
}

// line adds a sentence that stands below the table.
func (p *pages) line(order int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines == nil {
		p.lines = map[int]string{}
	}
	p.lines[order] = text
	fmt.Println(text)
}

func (r *row) markdown() string {
	again := "—"
	if r.again > 0 {
		again = fmt.Sprintf("%.1f s", r.again.Seconds())
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %s | %s |", r.fault, r.sent, r.failed, r.misrouted, r.fellBack, again, r.note)
}

// The page keeps what is written by hand around these lines.
const (
	begins = "<!-- begin: written by scripts/faults -->"
	ends   = "<!-- end -->"
)

// write puts the tables into a page that has a place for them.
func (p *pages) write(path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), begins)
	_, tail, ok2 := strings.Cut(rest, ends)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the tables, between the lines %s and %s", path, begins, ends)
	}
	slices.SortFunc(p.rows, func(a, b row) int { return a.order - b.order })
	var out strings.Builder
	fmt.Fprintf(&out, "%s%s\n\n", head, begins)
	what := "The short form, as in the tests"
	if *long {
		what = "The long form"
	}
	fmt.Fprintf(&out, "%s, by `scripts/faults`%s, seed %d.\n\n", what, *at, *seed)
	out.WriteString("| fault | requests | failed | misrouted | fell back, said | right again after | |\n|---|--:|--:|--:|--:|--:|---|\n")
	for _, r := range p.rows {
		fmt.Fprintln(&out, r.markdown())
	}
	for _, k := range slices.Sorted(maps.Keys(p.lines)) {
		fmt.Fprintf(&out, "\n%s\n", p.lines[k])
	}
	fmt.Fprintf(&out, "\n%s%s", ends, tail)
	return os.WriteFile(path, []byte(out.String()), 0o644)
}
