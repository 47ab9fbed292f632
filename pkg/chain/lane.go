package chain

import (
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// LaneOf is the lane that a trace has had: the decision nearest to the entry counts. It
// is empty if no hop of it had one.
func LaneOf(seen []Seen) lane.Name {
	var first *Hop
	for i := range seen {
		for k := range seen[i].Hops.Hops {
			h := &seen[i].Hops.Hops[k]
			switch {
			case h.Lane == "" || h.Lane == lane.BaselineTag || h.Strayed:
			case first == nil, nearer(h, first):
				first = h
			}
		}
	}
	if first == nil {
		return ""
	}
	return first.Lane
}

// nearer says whether a hop is nearer to the entry: at a gateway, else by the clocks,
// which of two machines may differ.
func nearer(h, o *Hop) bool {
	if entry := h.Front == traffic.FrontGateway; entry != (o.Front == traffic.FrontGateway) {
		return entry
	}
	return h.Start.Before(o.Start)
}
