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
		flag, _, _ := strings.Cut(a, "=")
		hint := map[string]string{"--diff": "lane curl --diff ... URL", "--lane": "lane curl --lane LANE ... URL",
			"--ignore": "lane curl --diff --ignore WHAT ... URL"}[flag]
		if hint != "" { // curl takes --ignore for one of its own, and waits
			return usagef(hint, "%s stands behind curl's own arguments: it goes in front of them", flag)
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
	table, err := installedCurl(ctx, curl)
	if err != nil {
		return err
	}
	read := table.read(args)
	for _, o := range read.options {
		if o.name == "header" && isTag(o.value) {
			return usagef("leave it out; --lane LANE names another lane", "--diff sets %s itself", lane.HeaderTag)
		}
	}
	if err := read.notDiffed(); err != nil {
		return err
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
	ask := func(tag string) (curlAnswer, error) {
		return curlOnce(ctx, f, curl, st, filepath.Join(dir, "a"), tag, args, read.end, input)
	}
	base, err := ask(lane.BaselineTag)
	if err != nil {
		return err
	}
	// Only now it is known that curl could send it at all.
	if method := read.method(); !slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE"}, method) {
		if _, err := fmt.Fprintf(f.io.Err, "lane: --diff sends this %s twice, first to the baseline, which others share: what it changes there stays\n", traffic.Printable(method)); err != nil {
			return err
		}
	}
	in, err := ask(string(st.Lane))
	if err != nil {
		return err
	}
	if in.Err != "" && in.exit == base.exit { // curl says how long it took, which is no difference
		in.Err = base.Err
	}
	ignore := slices.Concat(compare.Ignored(), o.ignore)
	d := printer.Diff{Schema: printer.DiffSchema, Lane: string(st.Lane), Baseline: base.side, InLane: in.side, Ignored: ignore,
		LaneServed: in.servedBy(st.Lane), Differences: compare.Diff(base.Answer, in.Answer, ignore)}
	d.Same = len(d.Differences) == 0 && base.side.Error == "" && in.side.Error == "" && d.LaneServed
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

// curlAnswer is what curl received, behind redirects the last answer.
type curlAnswer struct {
	compare.Answer
	side      printer.DiffAnswer
	exit      int      // curl's own exit code
	decisions []string // of all answers, those of redirects too
}

// servedBy reports whether the lane has served it, or has redirected it.
func (a *curlAnswer) servedBy(name lane.Name) bool {
	return slices.ContainsFunc(a.decisions, func(d string) bool {
		return served(d, string(lane.KindLaneMatch)+"; lane="+string(name))
	})
}

// isTag says that a -H sets the lane's header.
func isTag(header string) bool {
	name, _, _ := strings.Cut(strings.ReplaceAll(header, ";", ":"), ":")
	return strings.EqualFold(strings.TrimSpace(name), lane.HeaderTag)
}

// notSent are curl's exit codes of mistakes in its arguments, for which it has sent nothing:
// no such protocol, no such option, no URL, a file that cannot be read.
var notSent = []int{1, 2, 3, 26}

// curlOnce runs curl with a tag, its options ending at end. Its answer is in files,
// whatever else curl is told to print.
func curlOnce(ctx context.Context, f *factory, curl string, st *control.Status, path, tag string, args []string, end int, input []byte) (curlAnswer, error) {
	head, body := path+".head", path+".body"
	for _, p := range []string{head, body} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return curlAnswer{}, err
		}
	}
	argv := slices.Concat([]string{"--proxy", st.Proxy, "--noproxy", ""}, args[:end],
		[]string{"-H", lane.HeaderTag + ": " + tag, "-sS", "--no-include", "-D", head, "-o", body}, args[end:])
	c := exec.CommandContext(ctx, curl, argv...)
	var said bytes.Buffer
	c.Env, c.Stdin, c.Stderr, c.Stdout = f.curlEnv(st), bytes.NewReader(input), &said, io.Discard
	c.WaitDelay = 5 * time.Second
	began := time.Now()
	err := c.Run()
	side := printer.DiffAnswer{TookMS: float64(time.Since(began).Microseconds()) / 1000}
	if ctx.Err() != nil {
		return curlAnswer{}, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return curlAnswer{}, err
	}
	a, rerr := readAnswer(head, body)
	if exit != nil {
		a.exit = exit.ExitCode()
	}
	why := strings.TrimSpace(said.String())
	if err != nil && why == "" {
		why = err.Error()
	}
	switch {
	case err != nil && a.Status == 0:
		if slices.Contains(notSent, a.exit) {
			return a, usagef("`curl --help all` lists its options", "%s", traffic.Printable(why))
		}
		a.Err = why
	case err != nil && a.exit != curlFailed: // it broke off in the body
		side.Error, a.NoBody = why, true
	case err != nil && rerr != nil: // of a failure -f keeps no body
		a.NoBody = true
	case rerr != nil:
		return a, rerr
	}
	if a.Err != "" {
		side.Error = a.Err
	}
	side.Status, side.Bytes, side.Decision = a.Status, len(a.Body), a.Header.Get(lane.HeaderDecision)
	if code := a.Header.Get(lane.HeaderError); code != "" {
		side.Error = "an error of lane: " + code
	}
	a.side = side
	return a, nil
}

// curlFailed is curl's exit code for -f and a status of 400 and more, which is an answer.
const curlFailed = 22

func elsewhere() error {
	return usagef("leave out options that send it elsewhere (-o, -O, -D)", "curl has written no answer")
}

// readAnswer reads what curl wrote of an answer: of several, behind redirects, the
// last one.
func readAnswer(headPath, bodyPath string) (curlAnswer, error) {
	var a curlAnswer
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
		a.decisions = append(a.decisions, a.Header.Get(lane.HeaderDecision))
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
