package chain

import (
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// LaneSchema names the JSON form of LaneSeen.
const LaneSchema = "lane.seen/v1"

// LaneSeen is what one router has seen of a lane behind a number of its record.
type LaneSeen struct {
	Schema   string    `json:"schema"`
	Lane     lane.Name `json:"lane"`
	Requests int       `json:"requests"` // that came with the lane's tag, or have it from there on
	Lost     uint64    `json:"lost"`     // of all, that are not in the record any more
	Last     uint64    `json:"last"`     // the record's newest number
}

// FindLane looks a lane up in a record, which each shows in the order of its numbers.
func FindLane(each func(show func(*traffic.Exchange)), name lane.Name, after uint64) LaneSeen {
	out := LaneSeen{Schema: LaneSchema, Lane: name, Last: after}
	next := after + 1
	each(func(e *traffic.Exchange) {
		if e.Seq <= after {
			return
		}
		out.Lost += e.Seq - next
		next, out.Last = e.Seq+1, e.Seq
		if e.Lane == name || e.Tag == string(name) {
			out.Requests++
		}
	})
	return out
}
