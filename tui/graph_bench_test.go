package tui

import (
	"testing"

	"lane/tui/internal/scene"
)

// BenchmarkGraph is the graph of a full ring, as it is made for each frame while it
// is open.
func BenchmarkGraph(b *testing.B) {
	u := &user{m: newModel(Options{Now: scene.Now})}
	m := u.m.batch(batchMsg{at: scene.Now(), rows: scene.Stream(1, ringSize)})
	m.status = scene.Status()
	b.ReportAllocs()
	for b.Loop() {
		m.drawn = 0
		m.graph.to = m.graph.from
		m = m.drawGraph()
	}
}
