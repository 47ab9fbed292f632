//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// results are all samples of a run.
type results struct {
	o       *options
	targets []*target
	samples map[string][]sample // by target and mode
}

func newResults(o *options, targets []*target) *results {
	return &results{o: o, targets: targets, samples: map[string][]sample{}}
}

func (r *results) add(t *target, m mode, s sample) {
	key := t.name + " " + m.key
	r.samples[key] = append(r.samples[key], s)
}

// median of one number, and whether half of its samples or more were disturbed.
func (r *results) median(name, mode string, of func(*sample) float64) (m float64, disturbed bool) {
	var values []float64
	bad := 0
	for _, s := range r.samples[name+" "+mode] {
		values = append(values, of(&s))
		if s.disturbed() {
			bad++
		}
	}
	return middle(values), len(values) > 0 && bad*2 >= len(values)
}

// over is the median of the repetitions' ratios to another target: a machine that
// is slow for a while is so for both.
func (r *results) over(name, to, mode string, of func(*sample) float64) float64 {
	mine, base := r.samples[name+" "+mode], r.samples[to+" "+mode]
	var ratios []float64
	for i := range min(len(mine), len(base)) {
		if b := of(&base[i]); b > 0 {
			ratios = append(ratios, of(&mine[i])/b)
		}
	}
	return middle(ratios)
}

func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	m := values[len(values)/2]
	if len(values)%2 == 0 {
		m = (m + values[len(values)/2-1]) / 2
	}
	return m
}

func rps(s *sample) float64 { return s.rps }
func p50(s *sample) float64 { return s.p50 }
func p99(s *sample) float64 { return s.p99 }
func mb(s *sample) float64  { return s.mb }
func cpu(s *sample) float64 { return s.cpu }

func (r *results) value(name, mode string, of func(*sample) float64) float64 {
	v, _ := r.median(name, mode, of)
	return v
}

// doubt follows a number of which half the samples were disturbed.
func doubt(bad bool) string {
	if bad {
		return "~"
	}
	return ""
}

func (r *results) has(name string) bool {
	return slices.ContainsFunc(r.targets, func(t *target) bool { return t.name == name })
}

// print writes the tables as they stand in docs/performance.md.
func (r *results) print(w io.Writer, facts []string) {
	for _, f := range facts {
		fmt.Fprintln(w, f+".")
	}
	each := r.o.seconds.String()
	if slices.ContainsFunc(r.o.modes, func(m mode) bool { return m.rate > 0 }) {
		each += ", " + r.o.steady.String() + " at a fixed rate"
	}
	fmt.Fprintf(w, "%d repetitions of %s, medians, of ratios too; %d instances of the service; %s.\n\n", r.o.reps, each, r.o.others+1, r.disturbance())
	for _, m := range r.o.modes {
		if m.key != modeBig && m.key != modeOne && m.rate == 0 {
			r.table(w, m)
		}
	}
	if r.o.kind == kindGateway {
		r.printEntries(w)
		return
	}
	r.rest(w)
	r.aims(w)
}

// disturbance says how much of the run others had a part in.
func (r *results) disturbance() string {
	bad, all := 0, 0
	for _, list := range r.samples {
		for i := range list {
			all++
			if list[i].disturbed() {
				bad++
			}
		}
	}
	return fmt.Sprintf("%d of %d measurements disturbed (others used more than %.2f of a CPU; a number with half of its samples so has a ~)", bad, all, most)
}

func row(w io.Writer, cells ...string) { fmt.Fprintln(w, "| "+strings.Join(cells, " | ")+" |") }

func head(w io.Writer, cells ...string) {
	row(w, cells...)
	fmt.Fprintln(w, "|---"+strings.Repeat("|---:", len(cells)-1)+"|")
}

func (r *results) table(w io.Writer, m mode) {
	key := m.key
	head(w, plural(m.conns), "requests/s", "x direct", "x nginx", "p50 µs", "p99 µs", "CPU µs/request", "x nginx's")
	for _, t := range r.targets {
		v, bad := r.median(t.name, key, rps)
		cells := []string{t.name, fmt.Sprintf("%.0f%s", v, doubt(bad)), r.ratio(t.name, direct, key, rps), r.ratio(t.name, "nginx", key, rps),
			fmt.Sprintf("%.0f", r.value(t.name, key, p50)), fmt.Sprintf("%.0f", r.value(t.name, key, p99)), "", ""}
		if t.name != direct {
			cells[6], cells[7] = fmt.Sprintf("%.1f", r.value(t.name, key, cpu)), r.ratio(t.name, "nginx", key, cpu)
		}
		row(w, cells...)
	}
	fmt.Fprintln(w)
}

func plural(conns int) string {
	if conns == 1 {
		return "1 connection"
	}
	return strconv.Itoa(conns) + " connections"
}

func (r *results) ratio(name, to, mode string, of func(*sample) float64) string {
	x := r.over(name, to, mode, of)
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", x)
}

// rest is what is measured once for a target: downloads, the layout with one CPU, memory.
func (r *results) rest(w io.Writer) {
	head(w, "others", "10 MiB at 4 connections, MB/s", "x direct", "one CPU, 1 connection: p50 µs", "added µs", "resident MiB: idle", "after", "peak")
	for _, t := range r.targets {
		cells := []string{t.name, "", "", "", "", "", "", ""}
		if r.measured(modeBig) {
			big, bad := r.median(t.name, modeBig, mb)
			cells[1], cells[2] = fmt.Sprintf("%.0f%s", big, doubt(bad)), r.ratio(t.name, direct, modeBig, mb)
		}
		if r.measured(modeOne) {
			one, bad := r.median(t.name, modeOne, p50)
			cells[3] = fmt.Sprintf("%.0f%s", one, doubt(bad))
			if t.name != direct {
				cells[4] = fmt.Sprintf("%.0f", one-r.value(direct, modeOne, p50))
			}
		}
		if t.name != direct {
			cells[5], cells[6], cells[7] = fmt.Sprintf("%.0f", t.idle), fmt.Sprintf("%.0f", t.after), fmt.Sprintf("%.0f", t.peak)
		}
		row(w, cells...)
	}
	fmt.Fprintln(w)
}

func (r *results) measured(key string) bool {
	return slices.ContainsFunc(r.o.modes, func(m mode) bool { return m.key == key })
}

// aims are what lane is held to.
func (r *results) aims(w io.Writer) {
	head(w, "aim", "value", "")
	for _, t := range r.targets {
		if t.load != nil {
			r.aimsOf(w, t)
		}
	}
}

func (r *results) aimsOf(w io.Writer, t *target) {
	const at = "c16"
	over := func(to string, of func(*sample) float64) float64 { return r.over(t.name, to, at, of) }
	if r.measured(at) && r.has("nginx") {
		aim(w, t, "CPU per request, x nginx's,", over("nginx", cpu), atMost, 1.5)
	}
	if r.measured(at) && r.has("squid") {
		aim(w, t, "requests/s, x squid's,", over("squid", rps), atLeast, 2)
	}
	if r.measured(at) {
		aim(w, t, "requests/s, x direct,", over(direct, rps), atLeast, 0.6)
	}
	if r.measured(modeOne) {
		aim(w, t, "added p50, one connection on one CPU, µs,", r.value(t.name, modeOne, p50)-r.value(direct, modeOne, p50), atMost, 60)
	}
	if r.measured(modeBig) {
		aim(w, t, "10 MiB downloads, x direct,", r.over(t.name, direct, modeBig, mb), atLeast, 0.75)
	}
	if t.load.sent >= 10000 {
		aim(w, t, fmt.Sprintf("resident MiB after %d exchanges,", t.load.sent), t.after, atMost, 40)
	}
}

const (
	atMost  = "at most"
	atLeast = "at least"
)

func aim(w io.Writer, t *target, what string, value float64, which string, limit float64) {
	verdict := "missed"
	if which == atMost && value <= limit || which == atLeast && value >= limit {
		verdict = "met"
	}
	row(w, fmt.Sprintf("%s: %s %s %.4g", t.name, what, which, limit), fmt.Sprintf("%.2f", value), verdict)
}
