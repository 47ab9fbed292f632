package traffic

import (
	"fmt"
	"maps"
	"sync"
	"testing"
)

func TestCounts(t *testing.T) {
	var c Counts
	if c.Total(CountMatched) != 0 || len(c.By(CountFallback)) != 0 || c.By(CountFallback) == nil {
		t.Error("the zero value counts something")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				c.Add(CountMatched, "", "")
				c.Add(CountFallback, "reason", "lane_absent")
				c.Add(CountFallback, "reason", "lane_drained")
			}
		})
	}
	wg.Wait()
	if c.Total(CountMatched) != 800 || c.Total(CountFallback) != 1600 ||
		!maps.Equal(c.By(CountFallback), map[string]uint64{"lane_absent": 800, "lane_drained": 800}) {
		t.Error(c.Total(CountMatched), c.By(CountFallback))
	}
}

func TestCountsAreBounded(t *testing.T) {
	var c Counts
	for i := range 10 * maxSeries {
		c.Add(CountErrors, "code", fmt.Sprint(i))
	}
	by := c.By(CountErrors)
	if len(by) > maxSeries+1 || by[OtherValue] == 0 || c.Total(CountErrors) != 10*maxSeries {
		t.Error(len(by), by[OtherValue], c.Total(CountErrors))
	}
}

// Four counts is what a tagged request adds.
func BenchmarkCounts(b *testing.B) {
	var c Counts
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Add(CountFallback, "reason", "lane_absent")
			c.Add("lane_tag_missing_total", "reason", "trace_mapped")
			c.Add(CountMatched, "", "")
			c.Add(CountRequests, "", "")
		}
	})
}
