package cmd

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// curlTable are the options of the curl that is installed, as its own help lists them:
// which of them have a value differs by version.
type curlTable struct {
	long  map[string]string // of a letter
	value map[string]bool   // of a long name: it has a value
}

var helpLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^ *(?:-(\S), )? *--([a-z0-9][a-z0-9.-]*)( <)?`)
})

// curlTableOf reads what `curl --help all` says.
func curlTableOf(help string) curlTable {
	t := curlTable{long: map[string]string{}, value: map[string]bool{}}
	for _, m := range helpLine().FindAllStringSubmatch(help, -1) {
		if t.value[m[2]] = m[3] != ""; m[1] != "" {
			t.long[m[1]] = m[2]
		}
	}
	return t
}

func installedCurl(ctx context.Context, curl string) (curlTable, error) {
	out, err := exec.CommandContext(ctx, curl, "--help", "all").Output()
	if err != nil {
		return curlTable{}, fmt.Errorf("%s --help all: %w", curl, err)
	}
	return curlTableOf(string(out)), nil
}

// full is the long name that a beginning of one stands for: older curls take it.
func (t curlTable) full(name string) string {
	if _, ok := t.value[name]; ok {
		return name
	}
	found := ""
	for k := range t.value {
		if name != "" && strings.HasPrefix(k, name) {
			if found != "" {
				return name // ambiguous: curl refuses it
			}
			found = k
		}
	}
	if found != "" {
		return found
	}
	return name
}

// curlOption is one option by its long name, as it was written, and its value.
type curlOption struct{ name, as, value string }

// curlArgs are curl's arguments as curl reads them.
type curlArgs struct {
	options []curlOption
	urls    []string
	end     int // behind the last option: where -- stands, or the end
}

func (t curlTable) read(args []string) curlArgs {
	a := curlArgs{end: len(args)}
	for i := 0; i < len(args); i++ {
		word := args[i]
		next := func() string {
			if i+1 == len(args) {
				return ""
			}
			i++
			return args[i]
		}
		switch {
		case word == "--":
			a.end = i
			a.urls = append(a.urls, args[i+1:]...)
			return a
		case len(word) < 2 || word[0] != '-':
			a.urls = append(a.urls, word)
		case word[1] == '-':
			name, value, has := strings.Cut(word[2:], "=")
			if name = t.full(name); t.value[name] && !has {
				value = next()
			}
			a.add(name, "--"+name, value)
		default:
			for j := 1; j < len(word); j++ { // several in one word
				name := t.long[word[j:j+1]]
				if !t.value[name] {
					a.add(name, "-"+word[j:j+1], "")
					continue
				}
				value := word[j+1:]
				if value == "" {
					value = next()
				}
				a.add(name, "-"+word[j:j+1], value)
				break
			}
		}
	}
	return a
}

func (a *curlArgs) add(name, as, value string) {
	if a.options = append(a.options, curlOption{name, as, value}); name == "url" {
		a.urls = append(a.urls, value)
	}
}

func (a *curlArgs) has(name string) bool {
	return slices.ContainsFunc(a.options, func(o curlOption) bool { return o.name == name })
}

// method is the method with which curl sends. What a file of options (-K) says is not
// known here.
func (a *curlArgs) method() string {
	said, by := "", "GET"
	for _, o := range a.options {
		switch n := o.name; {
		case n == "request":
			said = o.value
		case n == "head":
			by = "HEAD"
		case n == "upload-file":
			by = "PUT"
		case n == "json" || strings.HasPrefix(n, "data") || n == "form" || n == "form-string":
			by = "POST"
		}
	}
	switch {
	case said != "":
		return said
	case a.has("get"):
		return "GET"
	}
	return by
}

// manyURLs are curl's patterns that stand for several URLs.
var manyURLs = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{[^{}]*,[^{}]*\}|\[(\d+-\d+|[A-Za-z]-[A-Za-z])(:\d+)?\]`)
})

// notDiffed says why --diff cannot send them, nil if it can. It is asked before anything is
// sent.
func (a *curlArgs) notDiffed() error {
	for _, o := range a.options {
		switch o.name {
		case "output", "remote-name", "remote-name-all", "remote-header-name", "out-null", "dump-header":
			return usagef("leave it out, or send without --diff", "%s: --diff prints in what the two answers differ, and writes neither of them to a file", o.as)
		case "write-out":
			return usagef("leave it out; --diff=json has the status and the time of both", "%s: --diff prints nothing of curl's own", o.as)
		case "next":
			return usagef("ask for each one with a --diff of its own", "%s: --diff compares one request", o.as)
		}
	}
	if len(a.urls) > 1 {
		return usagef("ask for each one with a --diff of its own", "%d URLs: --diff compares one request", len(a.urls))
	}
	for _, u := range a.urls {
		switch {
		case strings.HasPrefix(u, "@"):
			return usagef("write the URL itself", "%q: --diff compares one request, and does not read URLs from a file", u)
		case !a.has("globoff") && manyURLs().MatchString(u):
			return usagef("ask for each one with a --diff of its own; -g has curl take {} and [] as they are", "%q stands for several URLs: --diff compares one request", u)
		}
	}
	return nil
}
