package chain

import (
	"testing"

	"lane/pkg/traffic"
)

func TestFindLane(t *testing.T) {
	record := []traffic.Exchange{
		{Seq: 4, Tag: "dev-z"},                // before
		{Seq: 7, Tag: "dev-z", Lane: "dev-z"}, // 5 and 6 are gone
		{Seq: 8, Lane: "dev-z"},               // by a rule
		{Seq: 9, Tag: "dev-z-2"},
		{Seq: 10},
	}
	each := func(show func(*traffic.Exchange)) {
		for i := range record {
			show(&record[i])
		}
	}
	for after, want := range map[uint64]LaneSeen{
		4:  {Requests: 2, Lost: 2, Last: 10},
		7:  {Requests: 1, Last: 10},
		8:  {Last: 10},
		10: {Last: 10},
		0:  {Requests: 3, Lost: 5, Last: 10},
	} {
		want.Schema, want.Lane = LaneSchema, "dev-z"
		if got := FindLane(each, "dev-z", after); got != want {
			t.Errorf("after %d: %+v, want %+v", after, got, want)
		}
	}
	if got := FindLane(func(func(*traffic.Exchange)) {}, "dev-z", 3); got.Requests != 0 || got.Lost != 0 || got.Last != 3 {
		t.Errorf("of nothing: %+v", got)
	}
}
