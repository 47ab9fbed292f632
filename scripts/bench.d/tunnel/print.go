//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
)

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Clone(values)
	slices.Sort(values)
	m := values[len(values)/2]
	if len(values)%2 == 0 {
		m = (m + values[len(values)/2-1]) / 2
	}
	return m
}

func (r *results) of(name string, f func(sample) float64) float64 {
	var v []float64
	for _, s := range r.samples[name] {
		v = append(v, f(s))
	}
	return median(v)
}

// ratio is the median of the repetitions' ratios: what slows the machine slows both.
func (r *results) ratio(a, b string, f func(sample) float64) float64 {
	var v []float64
	for i := range min(len(r.samples[a]), len(r.samples[b])) {
		if d := f(r.samples[b][i]); d > 0 {
			v = append(v, f(r.samples[a][i])/d)
		}
	}
	return median(v)
}

func one(s sample) float64     { return s.one }
func beside(s sample) float64  { return s.beside }
func p50(s sample) float64     { return s.p50 }
func p99(s sample) float64     { return s.p99 }
func opened(s sample) float64  { return s.opened }
func all(s sample) float64     { return s.all }
func refused(s sample) float64 { return float64(s.refused) }
func free(s sample) float64    { return s.beside / s.one }

func (r *results) print(w io.Writer) {
	fmt.Fprintf(w, "%s; load %s before, %s after.\n", machine(), r.load, loadavg())
	fmt.Fprintf(w, "%s, yamux v0.1.2, lane at %s.\n", versionOf("ssh", "-V"), revision())
	fmt.Fprintf(w, "%d repetitions, medians, of ratios too; %v of round trip added, transfers of %d MiB.\n\n", r.o.reps, r.o.rtt, r.o.bytes>>20)
	fmt.Fprintln(w, "| | one stream, MB/s | beside 20 stalled, MB/s | echo p50, ms | p99 | connect and echo, ms | 1,000 at once, s | failed |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, t := range r.targets {
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.1f | %.1f | %.1f | %.2f | %.0f |\n", t.name,
			r.of(t.name, one), r.of(t.name, beside), r.of(t.name, p50), r.of(t.name, p99), r.of(t.name, opened), r.of(t.name, all), r.of(t.name, refused))
	}
	if len(r.samples["lane"]) == 0 {
		return
	}
	fmt.Fprintln(w, "\n| aim | value |  |\n|---|---:|---:|")
	aim := func(what string, value float64, met bool) {
		word := "missed"
		if met {
			word = "met"
		}
		fmt.Fprintf(w, "| %s | %.2f | %s |\n", what, value, word)
	}
	if len(r.samples["ssh"]) > 0 {
		v := r.ratio("lane", "ssh", one)
		aim("one stream, x ssh's, at least 1.5", v, v >= 1.5)
		v = r.ratio("lane", "ssh", p50)
		aim("echo p50, x ssh's, at most 1.1", v, v <= 1.1)
		v = r.ratio("lane", "ssh", opened)
		aim("connect and echo, x ssh's, at most 1.1", v, v <= 1.1)
	}
	v := r.of("lane", free)
	aim("one stream beside 20 stalled ones, x without them, at least 0.8", v, v >= 0.8)
	v = 0
	if len(r.dead) > 0 {
		v = slices.Max(r.dead)
	}
	aim("a dead peer is found, s, at most 10 (the slowest of all)", v, v > 0 && v <= 10.1)
	aim("relay's memory for an idle stream, KiB, less than 64", r.memory, r.memory < 64)
	v = r.of("lane", refused)
	aim("of 1,000 at once, failed", v, v == 0)
}
