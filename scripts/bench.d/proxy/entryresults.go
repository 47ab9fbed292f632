//go:build linux

package main

import (
	"fmt"
	"io"
)

// printEntries writes the tables of gateway and sidecar that are not those of
// every run.
func (r *results) printEntries(w io.Writer) {
	for _, m := range r.o.modes {
		if m.rate > 0 {
			r.rateTable(w, m)
		}
	}
	head(w, "memory", "resident MiB: idle", "after", "peak")
	for _, t := range r.targets {
		if t.name != direct {
			row(w, t.name, fmt.Sprintf("%.0f", t.idle), fmt.Sprintf("%.0f", t.after), fmt.Sprintf("%.0f", t.peak))
		}
	}
	fmt.Fprintln(w)
	head(w, "aim", "value", "")
	for _, t := range r.targets {
		if t.load != nil {
			r.entryAims(w, t)
		}
	}
}

// rateTable shows what a target adds to each request where it is not hurried.
func (r *results) rateTable(w io.Writer, m mode) {
	head(w, fmt.Sprintf("%d requests/s", m.rate), "p50 µs", "added", "p99 µs", "added", "CPU µs/request", "x nginx's")
	for _, t := range r.targets {
		v, bad := r.median(t.name, m.key, p50)
		cells := []string{t.name, fmt.Sprintf("%.0f%s", v, doubt(bad)), "", fmt.Sprintf("%.0f", r.value(t.name, m.key, p99)), "", "", ""}
		if t.name != direct {
			cells[2], cells[4] = fmt.Sprintf("%.0f", r.added(t.name, m.key, p50)), fmt.Sprintf("%.0f", r.added(t.name, m.key, p99))
			cells[5], cells[6] = fmt.Sprintf("%.1f", r.value(t.name, m.key, cpu)), r.ratio(t.name, "nginx", m.key, cpu)
		}
		row(w, cells...)
	}
	fmt.Fprintln(w)
}

// added is the median of the repetitions' differences to direct.
func (r *results) added(name, mode string, of func(*sample) float64) float64 {
	mine, base := r.samples[name+" "+mode], r.samples[direct+" "+mode]
	var more []float64
	for i := range min(len(mine), len(base)) {
		more = append(more, of(&mine[i])-of(&base[i]))
	}
	return middle(more)
}

func (r *results) entryAims(w io.Writer, t *target) {
	const at = "c16"
	if r.measured(at) && r.has("nginx") {
		aim(w, t, "CPU per request, x nginx's,", r.over(t.name, "nginx", at, cpu), atMost, 1.7)
	}
	for _, m := range r.o.modes {
		if m.rate == 1000 {
			aim(w, t, "added p99 at 1000 requests/s, µs,", r.added(t.name, m.key, p99), atMost, 1000)
		}
	}
}
