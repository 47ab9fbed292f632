package printer

import (
	"fmt"
	"strconv"
	"strings"

	"lane/pkg/compare"
	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// DiffSchema names the JSON form of Diff.
const DiffSchema = "lane.diff/v1"

// Diff is one request that was sent to the baseline and to a lane, and in what the
// two answers differ. Old is the baseline's, New the lane's; secrets are masked.
type Diff struct {
	Schema      string               `json:"schema"`
	Lane        string               `json:"lane"`
	Same        bool                 `json:"same"`
	Baseline    DiffAnswer           `json:"baseline"`
	InLane      DiffAnswer           `json:"in_lane"`
	LaneServed  bool                 `json:"lane_served"` // if not, two answers of the baseline were compared
	Differences []compare.Difference `json:"differences"`
	Ignored     []string             `json:"ignored"`
}

// DiffAnswer is one of the two.
type DiffAnswer struct {
	Status   int     `json:"status"` // 0: there was none
	Decision string  `json:"decision,omitempty"`
	TookMS   float64 `json:"took_ms"`
	Bytes    int     `json:"bytes"`
	Error    string  `json:"error,omitempty"`
}

// Masked masks the secrets of differences, in their place.
func (d *Diff) Masked() {
	for i := range d.Differences {
		x := &d.Differences[i]
		x.Old, x.New = traffic.MaskBoth(x.Where, x.Old, x.New)
	}
}

// diffValueMost bounds one value, in bytes.
const diffValueMost = 2000

// failed says which of the two had no answer of a service, and why.
func (d *Diff) failed() string {
	base, in := d.Baseline.Error, d.InLane.Error
	switch {
	case base == "" && in == "":
		return ""
	case base == in:
		return "both failed: " + Line(base)
	case in == "":
		return "the baseline failed: " + Line(base)
	case base == "":
		return "the lane failed: " + Line(in)
	}
	return "both failed: the baseline: " + Line(base) + "; the lane: " + Line(in)
}

// itself says that the lane has not served what was asked of it, empty if it has.
func (d *Diff) itself() string {
	switch {
	case d.LaneServed || d.InLane.Error != "":
		return ""
	case d.InLane.Decision == "":
		return "the answer does not say that the lane served it: it has no X-Lane-Decision"
	case strings.HasPrefix(d.InLane.Decision, string(lane.KindFallback)): // the tag went on
		return "the lane did not serve it: the baseline was compared with itself, unless a service behind it is in the lane"
	}
	return "the lane did not serve it: the baseline was compared with itself"
}

// PrintDiff prints it as text.
func PrintDiff(s *iostreams.IOStreams, d *Diff) error {
	var b strings.Builder
	for _, a := range []struct {
		name string
		of   *DiffAnswer
	}{{"baseline", &d.Baseline}, {"lane " + d.Lane, &d.InLane}} {
		what := strconv.Itoa(a.of.Status)
		if a.of.Status == 0 {
			what = "no answer"
		}
		if a.of.Error != "" {
			what += ", " + a.of.Error
		}
		fmt.Fprintf(&b, "%-*s  %s  %.0f ms  %d B  %s\n", max(len("lane "+d.Lane), len("baseline")), Line(a.name), Line(what), a.of.TookMS, a.of.Bytes, Line(a.of.Decision))
	}
	failed := d.failed()
	if failed != "" {
		b.WriteString(failed + "\n")
	}
	itself := d.itself()
	if itself != "" {
		b.WriteString(itself + "\n")
	}
	switch n := len(d.Differences); {
	case n == 0 && (failed != "" || itself != ""): // nothing of theirs was compared
	case n == 0:
		b.WriteString("no difference\n")
	case n == 1:
		b.WriteString("1 difference (- baseline, + lane):\n")
	default:
		fmt.Fprintf(&b, "%d differences (- baseline, + lane):\n", n)
	}
	indexed := false
	for _, x := range d.Differences {
		b.WriteString(Line(x.Where))
		if x.ByIndex {
			b.WriteString(" (by index)")
			indexed = true
		}
		b.WriteByte('\n')
		for _, side := range []struct{ mark, value string }{{"-", x.Old}, {"+", x.New}} {
			v := side.value
			if len(v) > diffValueMost {
				v = v[:diffValueMost] + "..."
			}
			if v != "" {
				b.WriteString("  " + side.mark + " " + Line(v) + "\n")
			}
		}
	}
	if indexed {
		b.WriteString("by index: too many items are equal to find what was inserted\n")
	}
	_, err := s.Out.Write([]byte(b.String()))
	return err
}
