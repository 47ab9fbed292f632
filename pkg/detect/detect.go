package detect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// pattern is a regular expression that is compiled when it is first used: every
// command starts this package, and hardly any of them reads a build file.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Found is what a directory tells. Every field may be empty.
type Found struct {
	Service     string // a valid service name
	ServiceFrom string // the file that it comes from, or "the directory's name"

	// Frameworks are the frameworks in use, the one that decides on Preset first.
	Frameworks []string
	// Preset is the carrier that the framework passes on by itself: "lane" when
	// none does, or nothing is known.
	Preset string
	// Why says in one sentence what speaks for the preset.
	Why string
	// Todo says what the service itself has to do for the tag to travel on; empty
	// when nothing.
	Todo string

	Ports  []int  // where the service probably listens, best guess first
	Health string // path of a health check that the framework brings

	// Notes are files that could not be understood.
	Notes []string
}

// passes says what the framework does with which carrier.
type rule struct {
	framework string
	preset    string // empty: it passes nothing on
	why       string // after "FILE requires MODULE: "
	port      int    // its default
}

// fromFile is what one build file tells.
type fromFile struct {
	name  string // file
	rules []match
	found Found // Service, Ports, Health
}

type match struct {
	rule
	module string
}

// Look reads the build files in the root of fsys; dir is the directory's own
// name, for a service without any other. A file that cannot be understood is
// noted and passed over; the error is a failure to read.
func Look(fsys fs.FS, dir string) (Found, error) {
	var out Found
	var matches []match
	var file string
	for _, read := range []func(*reader) (fromFile, bool){readGo, readMaven, readGradle, readNode} {
		r := &reader{fsys: fsys}
		f, ok := read(r)
		out.Notes = append(out.Notes, r.notes...)
		if r.err != nil {
			return Found{}, r.err
		}
		if !ok || file != "" { // the first build file speaks for the service
			continue
		}
		file, matches = f.name, f.rules
		out.Service, out.ServiceFrom = f.found.Service, f.found.ServiceFrom
		out.Ports, out.Health = f.found.Ports, f.found.Health
	}
	out.Service = ServiceName(out.Service)
	if out.Service == "" {
		out.Service, out.ServiceFrom = ServiceName(dir), "the directory's name"
	}
	if out.Service == "" {
		out.ServiceFrom = ""
	}
	out.choose(file, matches)

	r := &reader{fsys: fsys}
	exposed := readExposed(r)
	if r.err != nil {
		return Found{}, r.err
	}
	for _, p := range exposed {
		out.addPort(p)
	}
	for _, m := range matches {
		out.addPort(m.port)
	}
	for _, p := range []int{8080, 3000, 8000, 8888, 5000, 9090} {
		out.addPort(p)
	}
	return out, nil
}

func (f *Found) addPort(p int) {
	if p > 0 && p < 65536 && !slices.Contains(f.Ports, p) {
		f.Ports = append(f.Ports, p)
	}
}

// choose takes the preset of the first framework that passes a carrier on.
func (f *Found) choose(file string, matches []match) {
	f.Preset = "lane"
	i := slices.IndexFunc(matches, func(m match) bool { return m.preset != "" })
	if i < 0 {
		f.Todo = "copy x-lane-tag (or baggage) from each request that comes in to each that goes out"
		f.Why = "nothing here is known to pass a header on by itself"
		for _, m := range matches {
			f.addFramework(m.framework)
			f.Why = fmt.Sprintf("%s requires %s, which passes no header on by itself", file, m.module)
		}
		return
	}
	m := matches[i]
	f.Preset = m.preset
	f.Why = fmt.Sprintf("%s requires %s: %s", file, m.module, m.why)
	f.addFramework(m.framework)
	for _, m := range matches {
		f.addFramework(m.framework)
	}
}

func (f *Found) addFramework(name string) {
	if !slices.Contains(f.Frameworks, name) {
		f.Frameworks = append(f.Frameworks, name)
	}
}

// maxName is the longest name of a service.
const maxName = 63

// ServiceName makes a service's name of s: lower case, and a hyphen for what a
// name cannot hold; empty if nothing is left.
func ServiceName(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	out := strings.Trim(b.String(), "-")
	if len(out) > maxName {
		out = strings.TrimRight(out[:maxName], "-")
	}
	return out
}

// reader reads small files and keeps what went wrong.
type reader struct {
	fsys  fs.FS
	notes []string
	err   error
}

// maxFile is the size above which a build file is not one.
const maxFile = 1 << 20

// file returns a file's text; false if there is none, or it cannot be read.
func (r *reader) file(name string) ([]byte, bool) {
	if r.err != nil {
		return nil, false
	}
	f, err := r.fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err != nil {
		r.err = fmt.Errorf("look at the source: %w", err)
		return nil, false
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		r.err = fmt.Errorf("look at the source: read %s: %w", name, err)
		return nil, false
	}
	if len(b) > maxFile {
		r.note(name, "larger than a megabyte")
		return nil, false
	}
	return b, true
}

func (r *reader) note(file, why string) {
	r.notes = append(r.notes, fmt.Sprintf("%s: %s", file, why))
}

// Presets are the presets that Look can suggest, sorted.
func Presets() []string {
	out := []string{"lane"}
	for _, r := range goRules {
		out = append(out, r.preset)
	}
	for _, r := range javaRules {
		out = append(out, r.preset)
	}
	for _, r := range nodeRules {
		out = append(out, r.preset)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(s string) bool { return s == "" })
}
