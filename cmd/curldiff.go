package cmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lane/pkg/compare"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/traffic"
)

// diffOptions are what stands before curl's own arguments.
type diffOptions struct {
	on     bool
	json   bool
	ignore []string
}

// leading takes lane's own flags from the front of curl's arguments.
func leading(args []string) (name string, d diffOptions, rest []string, err error) {
	for len(args) > 0 {
		flag, value, has := strings.Cut(args[0], "=")
		switch {
		case args[0] == "--diff":
			d.on = true
			args = args[1:]
			continue
		case args[0] == "--diff=json":
			d.on, d.json = true, true
			args = args[1:]
			continue
		case flag == "--diff":
			return "", d, nil, usagef("it is --diff, or --diff=json", "--diff: %q is no form of output", value)
		case flag == "--lane":
			var rest []string
			if name, rest, err = laneFlag(args); err != nil {
				return "", d, nil, err
			}
			args = rest
			continue
		case flag != "--ignore":
			return name, d, args, check(d, args)
		case !has && len(args) < 2:
			return "", d, nil, usagef("e.g. --ignore 'body .items[*].id'", "--ignore: there is nothing behind it")
		case !has:
			value = args[1]
			args = args[1:]
		}
		if err := compare.CheckIgnore(value); err != nil {
			return "", d, nil, usagef("`lane curl --help` shows what it takes", "--ignore: %v", err)
		}
		d.ignore = append(d.ignore, value)
		args = args[1:]
	}
	return name, d, args, check(d, args)
}

func check(d diffOptions, rest []string) error {
	for _, a := range rest {
		switch flag, _, _ := strings.Cut(a, "="); flag {
		case "--diff", "--ignore", "--lane": // curl takes --ignore for one of its own, and waits
			return usagef("lane curl "+a+" ... URL", "%s stands behind curl's own arguments: it goes in front of them", flag)
		}
	}
	if len(d.ignore) > 0 && !d.on {
		return usagef("lane curl --diff --ignore WHAT URL", "--ignore goes with --diff")
	}
	return nil
}

// runCurlDiff sends one request to the baseline and to the lane, with curl, and
// says in what the answers differ.
func runCurlDiff(ctx context.Context, f *factory, curl string, st *control.Status, o diffOptions, args []string) error {
	for _, a := range args {
		if strings.HasPrefix(strings.ToLower(strings.TrimLeft(a, "-H ")), lane.HeaderTag+":") {
			return usagef("leave it out; --lane LANE names another lane", "--diff sets %s itself", lane.HeaderTag)
		}
	}
	if method := methodOf(args); !slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE"}, method) {
		if _, err := fmt.Fprintf(f.io.Err, "lane: --diff sends this %s twice, first to the baseline, which others share: what it changes there stays\n", traffic.Printable(method)); err != nil {
			return err
		}
	}
	input, err := stdin(f.io.In, args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lane-curl-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ask := func(tag string) (compare.Answer, printer.DiffAnswer, error) {
		return curlOnce(ctx, f, curl, st, filepath.Join(dir, "a"), tag, args, input)
	}
	base, baseSide, err := ask(lane.BaselineTag)
	if err != nil {
		return err
	}
	in, inSide, err := ask(string(st.Lane))
	if err != nil {
		return err
	}
	ignore := slices.Concat(compare.Ignored(), o.ignore)
	d := printer.Diff{Schema: printer.DiffSchema, Lane: string(st.Lane), Baseline: baseSide, InLane: inSide, Ignored: ignore,
		Differences: compare.Diff(base, in, ignore)}
	d.Same = len(d.Differences) == 0 && baseSide.Error == "" && inSide.Error == ""
	d.Masked()
	if d.Differences == nil {
		d.Differences = []compare.Difference{}
	}
	if o.json {
		err = f.printJSON(&d)
	} else {
		err = printer.PrintDiff(f.io, &d)
	}
	if err == nil && !d.Same {
		return &exitError{code: exitFailed}
	}
	return err
}

// curlValues are curl's short options that have a value, in the same word or in the next.
const curlValues = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"

// methodOf is the method with which curl sends, by its arguments. What a file of options
// (-K) says is not known here.
func methodOf(args []string) string {
	said, by, get := "", "GET", false
	option := func(name, value string) {
		switch {
		case name == "X" || name == "request":
			said = value
		case name == "G" || name == "get":
			get = true
		case name == "I" || name == "head":
			by = "HEAD"
		case name == "T" || name == "upload-file":
			by = "PUT"
		case name == "d" || name == "F" || name == "json" || strings.HasPrefix(name, "data") || strings.HasPrefix(name, "form") && name != "form-escape":
			by = "POST"
		}
	}
	for i := 0; i < len(args); i++ {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		if long, ok := strings.CutPrefix(args[i], "--"); ok {
			name, value, has := strings.Cut(long, "=")
			if !has {
				value = next
			}
			if option(name, value); name == "request" && !has {
				i++
			}
			continue
		}
		if len(args[i]) < 2 || args[i][0] != '-' {
			continue
		}
		for j := 1; j < len(args[i]); j++ { // several in one word
			letter := args[i][j : j+1]
			if !strings.Contains(curlValues, letter) {
				option(letter, "")
				continue
			}
			value := args[i][j+1:]
			if value == "" {
				value = next
				i++
			}
			option(letter, value)
			break
		}
	}
	switch {
	case said != "":
		return said
	case get:
		return "GET"
	}
	return by
}

// stdinMost bounds what is read to be sent twice.
const stdinMost = 64 << 20

// stdin is what curl would read itself, which it can only once.
func stdin(in io.Reader, args []string) ([]byte, error) {
	if !slices.ContainsFunc(args, func(a string) bool { return a == "-" || strings.HasSuffix(a, "@-") }) {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(in, stdinMost+1))
	if err == nil && len(b) > stdinMost {
		err = errors.New("more than 64 MiB on the standard input")
	}
	return b, err
}

// curlOnce runs curl with a tag. Its answer is in files, whatever else curl is told
// to print.
func curlOnce(ctx context.Context, f *factory, curl string, st *control.Status, path, tag string, args []string, input []byte) (compare.Answer, printer.DiffAnswer, error) {
	head, body := path+".head", path+".body"
	for _, p := range []string{head, body} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return compare.Answer{}, printer.DiffAnswer{}, err
		}
	}
	argv := slices.Concat([]string{"--proxy", st.Proxy, "--noproxy", ""}, args,
		[]string{"-H", lane.HeaderTag + ": " + tag, "-sS", "--no-include", "-D", head, "-o", body})
	c := exec.CommandContext(ctx, curl, argv...)
	var said bytes.Buffer
	c.Env, c.Stdin, c.Stderr, c.Stdout = f.curlEnv(st), bytes.NewReader(input), &said, io.Discard
	c.WaitDelay = 5 * time.Second
	began := time.Now()
	err := c.Run()
	side := printer.DiffAnswer{TookMS: float64(time.Since(began).Microseconds()) / 1000}
	if ctx.Err() != nil {
		return compare.Answer{}, side, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return compare.Answer{}, side, err
	}
	a, rerr := readAnswer(head, body)
	if err != nil && a.Status == 0 {
		a.Err = strings.TrimSpace(said.String())
		if a.Err == "" {
			a.Err = err.Error()
		}
		if exit.ExitCode() == 2 { // a mistake in its arguments
			return a, side, usagef("`curl --help all` lists its options", "%s", traffic.Printable(a.Err))
		}
	} else if rerr != nil {
		return a, side, rerr
	}
	side.Status, side.Error, side.Bytes, side.Decision = a.Status, a.Err, len(a.Body), a.Header.Get(lane.HeaderDecision)
	if code := a.Header.Get(lane.HeaderError); code != "" {
		side.Error = "an error of lane: " + code
	}
	return a, side, nil
}

func elsewhere() error {
	return usagef("leave out options that send it elsewhere (-o, -O, -D)", "curl has written no answer")
}

// readAnswer reads what curl wrote of an answer: of several, behind redirects, the
// last one.
func readAnswer(headPath, bodyPath string) (compare.Answer, error) {
	var a compare.Answer
	raw, err := os.ReadFile(headPath)
	if err != nil {
		return a, elsewhere()
	}
	for block := range strings.SplitSeq(strings.TrimRight(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n"), "\n\n") {
		line, fields, _ := strings.Cut(block, "\n")
		words := strings.Fields(line)
		if len(words) < 2 || !strings.HasPrefix(words[0], "HTTP/") {
			continue
		}
		if a.Status, err = strconv.Atoi(words[1]); err != nil {
			return a, fmt.Errorf("curl's head of the answer: %q", line)
		}
		h, err := textproto.NewReader(bufio.NewReader(strings.NewReader(fields + "\n\n"))).ReadMIMEHeader()
		if err != nil {
			return a, fmt.Errorf("curl's head of the answer: %w", err)
		}
		a.Header = http.Header(h)
	}
	a.Body, err = os.ReadFile(bodyPath)
	switch n := a.Header.Get("Content-Length"); {
	case errors.Is(err, os.ErrNotExist) && (n != "" && n != "0" || a.Header.Get("Transfer-Encoding") != ""):
		return a, elsewhere()
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return a, err
	}
	if bytes.Equal(a.Body, raw) { // of -I
		a.Body = nil
	}
	a.Body, a.Shown = traffic.Comparable(traffic.HeadOf(a.Header), a.Body)
	return a, nil
}
