package chain

import (
	"fmt"
	"slices"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Residue is a hop of a request without the lane that had something of it.
type Residue struct {
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"`
}

// Residues are what is left of a lane's request, first, in the one after it, which is
// of no lane: hops of the second one in the lane, and calls with the first one's trace,
// or without the trace and in the lane, while a service worked on the second. hops is
// how many there are of the second one at routers, and met at how many routers it came
// where the first one was in the lane: only there can anything have been left behind.
// Both are by the same routers.
func Residues(name lane.Name, first, second []Seen) (left []Residue, hops, met int) {
	left = []Residue{}
	for i, s := range second {
		by := s.Hops.Service
		if by == "" {
			by = Gateway
		}
		if s.Session {
			by = Session
		}
		var came []Hop
		for _, h := range s.Hops.Hops {
			if !s.Session {
				hops++
			}
			from := by
			if !h.call() && h.Front != traffic.FrontGateway {
				from = "its caller"
				came = append(came, h)
			}
			switch {
			case h.Strayed && h.Others > 0: // it may be one of theirs
			case h.Lane == name && h.Strayed:
				left = append(left, Residue{from, h.Service, fmt.Sprintf("%s sent the tag %s, and no trace", from, name)})
			case h.Lane == name:
				left = append(left, Residue{from, h.Service, "it was in lane " + string(name)})
			case h.Tag == string(name):
				left = append(left, Residue{from, h.Service, fmt.Sprintf("%s sent the tag %s, which was set right", from, name)})
			}
		}
		if i >= len(first) {
			continue
		}
		if !s.Session && len(s.Hops.Hops) > 0 && slices.ContainsFunc(first[i].Hops.Hops, func(h Hop) bool {
			return h.Lane == name || h.Tag == string(name) && h.Front != traffic.FrontGateway // which may not trust it
		}) {
			met++
		}
		for _, h := range first[i].Hops.Hops {
			late := h.call() && !h.Strayed && slices.ContainsFunc(came, func(c Hop) bool { return h.during(&c) })
			if late {
				left = append(left, Residue{by, h.Service, by + " made it with the trace of the request before"})
			}
		}
	}
	return left, hops, met
}
