package tui

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/control"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// fake is a session: a real log and a status that a test changes.
type fake struct {
	mu     sync.Mutex
	log    *traffic.Log
	status control.Status
	err    error
	asked  int // calls of Status
}

func newFake() *fake { return &fake{log: traffic.NewLog(ringSize), status: scene.Status()} }

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) now() (control.Status, *traffic.Log, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.status, f.log, f.err
}

func (f *fake) Batch(ctx context.Context, after uint64, most int) (traffic.Batch, error) {
	_, log, err := f.now()
	if err != nil {
		return traffic.Batch{}, err
	}
	return log.Batch(ctx, after, most)
}

func (f *fake) Status(context.Context) (control.Status, error) {
	s, _, err := f.now()
	return s, err
}

// put puts n exchanges that happen now.
func (f *fake) put(n int) {
	_, log, _ := f.now()
	for range n {
		e := scene.Exchanges()[0]
		e.Start = time.Now()
		log.Put(e)
	}
}

// sent is what a feed sent, counted.
type sent struct {
	mu      sync.Mutex
	batches []batchMsg
	status  []statusMsg
	restart int
}

func (s *sent) send(msg tea.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch msg := msg.(type) {
	case batchMsg:
		s.batches = append(s.batches, msg)
	case statusMsg:
		s.status = append(s.status, msg)
	case restartMsg:
		s.restart++
	}
}

func (s *sent) counts() (batches, status, restarts, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.batches {
		rows += len(b.rows)
	}
	return len(s.batches), len(s.status), s.restart, rows
}

func (s *sent) last() statusMsg {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status[len(s.status)-1]
}

// withFeed runs a feed over a fake session in a bubble of fake time.
func withFeed(t *testing.T, do func(*fake, *sent)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		src, out := newFake(), &sent{}
		f := feed{src: src, send: out.send, now: time.Now, every: time.Second / defaultFPS}
		var wg sync.WaitGroup
		wg.Go(func() { f.exchanges(ctx) })
		wg.Go(func() { f.status(ctx) })
		synctest.Wait()
		do(src, out)
		stop()
		wg.Wait()
	})
}

func TestFeedBatches(t *testing.T) {
	withFeed(t, func(src *fake, out *sent) {
		start := time.Now()
		for range 4000 { // 4 s of 5,000 a second
			src.put(5)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		batches, status, _, _ := out.counts()
		if batches+status >= 100 || batches < 40 {
			t.Errorf("%d batches and %d states in %v: as many drawings", batches, status, time.Since(start))
		}
		time.Sleep(100 * time.Millisecond)
		if _, _, _, rows := out.counts(); rows != 20_000 {
			t.Errorf("%d rows of 20,000", rows)
		}
		synctest.Wait()
		for i, b := range out.batches[1:] {
			if gap := b.at.Sub(out.batches[i].at); gap < 66*time.Millisecond {
				t.Fatalf("batch %d came %v after the one before", i+1, gap)
			}
		}
	})
}

// A flood brings a hundred rows each time and the figures of the rest, until there
// are fewer again; a rush, and whoever looks in late, all rows.
func TestFeedLeavesAFloodToTheSession(t *testing.T) {
	withFeed(t, func(src *fake, out *sent) {
		missing := func() (n uint64) {
			out.mu.Lock()
			defer out.mu.Unlock()
			for _, b := range out.batches {
				n += (&traffic.Batch{Lost: b.lost, Left: b.left, More: b.more}).Missing()
			}
			return n
		}
		put := func(ms, each int) {
			for range ms {
				src.put(each)
				time.Sleep(time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
		}
		rows := func() int { _, _, _, n := out.counts(); return n }
		put(100, 40) // a rush of 4,000
		if n := rows(); n != 4000 || missing() != 0 {
			t.Errorf("a rush: %d rows, %d missing", n, missing())
		}
		time.Sleep(2 * time.Second)
		put(3000, 20) // 20,000 a second
		got, left := rows()-4000, int(missing())
		if got+left != 60_000 || got > 12_000 || got < 4000 {
			t.Errorf("a flood: %d rows, %d missing", got, left)
		}
		time.Sleep(2 * time.Second)
		before, lost := rows(), missing()
		put(3000, 5)
		if n := rows() - before; n != 15_000 || missing() != lost {
			t.Errorf("after it: %d rows, %d missing", n, missing()-lost)
		}
	})
}

func TestFeedIsSilentWhenNothingChanges(t *testing.T) {
	withFeed(t, func(src *fake, out *sent) {
		src.put(3)
		time.Sleep(20 * time.Second)
		// The feed may wake with the first row: the others then wait for its
		// next turn, and come together.
		b0, s0, _, rows := out.counts()
		if b0 < 1 || b0 > 2 || rows != 3 {
			t.Errorf("%d batches with %d rows for three rows at once", b0, rows)
		}
		time.Sleep(time.Hour)
		if b, s, _, _ := out.counts(); b != b0 || s != s0 {
			t.Errorf("%d messages in an hour of nothing", b+s-b0-s0)
		}
		// The twin: a change is told within its second, once.
		src.set(func(f *fake) { f.status.Services = f.status.Services[:1] })
		time.Sleep(10 * time.Second)
		if _, s, _, _ := out.counts(); s != s0+1 {
			t.Errorf("%d messages for one change", s-s0)
		}
		// An age on the screen goes on each second.
		src.set(func(f *fake) { f.status.Registry.State = registryStale })
		time.Sleep(10 * time.Second)
		if _, s, _, _ := out.counts(); s < s0+10 || s > s0+12 {
			t.Errorf("%d messages in ten seconds of a stale registry", s-s0-1)
		}
	})
}

func TestFeedCountsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, out := newFake(), &sent{}
		src.log = traffic.NewLog(10)
		src.put(50) // history that is gone before we look is no loss of ours
		ctx, stop := context.WithCancel(t.Context())
		f := feed{src: src, send: out.send, now: time.Now, every: time.Second / defaultFPS}
		var wg sync.WaitGroup
		wg.Go(func() { f.exchanges(ctx) })
		synctest.Wait()
		src.put(35)
		time.Sleep(time.Second)
		stop()
		wg.Wait()
		if len(out.batches) != 2 || out.batches[0].lost != 0 || out.batches[1].lost != 25 {
			t.Errorf("batches %+v", out.batches)
		}
	})
}

func TestFeedSurvivesTheSession(t *testing.T) {
	refused := errors.New("connection refused")
	withFeed(t, func(src *fake, out *sent) {
		src.put(3)
		time.Sleep(time.Second)
		// It stops answering while Next waits; Next ends with the next row.
		src.set(func(f *fake) { f.err = refused })
		src.put(1)
		time.Sleep(10 * time.Second)
		if last := out.last(); !errors.Is(last.err, refused) || last.status.Lane != "dev-alice" {
			t.Errorf("the last message says %v of %q", last.err, last.status.Lane)
		}
		// The same session answers again.
		src.set(func(f *fake) { f.err = nil })
		src.put(2)
		time.Sleep(10 * time.Second)
		if _, _, restarts, rows := out.counts(); restarts != 0 || rows != 6 {
			t.Errorf("%d restarts, %d rows of 6", restarts, rows)
		}
		if last := out.last(); last.err != nil {
			t.Errorf("the last message still says %v", last.err)
		}
		// Another session: shorter history, numbered from 1.
		src.set(func(f *fake) { f.err = refused })
		src.put(1)
		time.Sleep(5 * time.Second)
		src.set(func(f *fake) {
			f.err, f.log = nil, traffic.NewLog(ringSize)
			f.status.Started = f.status.Started.Add(time.Hour)
		})
		src.put(1)
		time.Sleep(10 * time.Second)
		if _, _, restarts, rows := out.counts(); restarts != 1 || rows != 8 {
			t.Errorf("%d restarts, %d rows of 8", restarts, rows)
		}
	})
}

func TestFeedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, out := newFake(), &sent{}
		src.err = io.EOF
		f := feed{src: src, send: out.send, now: time.Now, every: time.Second}
		f.exchanges(t.Context()) // both return
		f.status(t.Context())
		if len(out.status) != 1 || !errors.Is(out.status[0].err, io.EOF) {
			t.Errorf("told %+v", out.status)
		}
		if src.asked != 2 {
			t.Errorf("the ended session was asked %d times", src.asked)
		}
	})
}

// BenchmarkFrame is one frame at 5,000 exchanges a second: a batch of 333 into a
// full ring under a filter, and a drawing.
func BenchmarkFrame(b *testing.B) {
	for name, size := range map[string][2]int{"80x24": {80, 24}, "140x40": {140, 40}} {
		b.Run(name, func(b *testing.B) {
			m := newModel(Options{Now: scene.Now, Color: true})
			step := func(msg tea.Msg) { next, _ := m.Update(msg); m = next.(model) }
			step(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			step(statusMsg{at: scene.Now(), status: scene.Status()})
			f, err := traffic.ParseFilter("-path:/healthz st:200|503")
			if err != nil {
				b.Fatal(err)
			}
			m.list = m.list.choose(f, 0)
			rows := scene.Stream(1, 333)
			for range 20 {
				step(batchMsg{at: scene.Now(), rows: rows})
			}
			b.ReportAllocs()
			for b.Loop() {
				m.rate = rate{}
				step(batchMsg{at: scene.Now(), rows: rows})
				_ = m.View()
			}
		})
	}
}

// BenchmarkBody is a frame while a long body is open and rows come in.
func BenchmarkBody(b *testing.B) {
	u := &user{m: newModel(Options{Now: scene.Now})}
	step := func(msg tea.Msg) { next, _ := u.m.Update(msg); u.m = next.(model) }
	step(tea.WindowSizeMsg{Width: 80, Height: 24})
	step(statusMsg{at: scene.Now(), status: scene.Status()})
	rows := scene.Stream(1, 333)
	step(batchMsg{at: scene.Now(), rows: rows})
	step(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("3")})
	whole := u.m.detail.of
	whole.ResBody = &traffic.Body{Bytes: []byte("[" + strings.Repeat(`{"id":1,"name":"a name"},`, 2500) + "0]")}
	whole.ResSize = int64(len(whole.ResBody.Bytes))
	step(wholeMsg{seq: whole.Seq, e: whole})
	if !strings.Contains(u.m.View(), `"id": 1`) {
		b.Fatal(u.m.View())
	}
	b.ReportAllocs()
	for b.Loop() {
		u.m.rate = rate{}
		step(batchMsg{at: scene.Now(), rows: rows})
		_ = u.m.View()
	}
}

// TestFewDrawingsOfMuchTraffic: 5,000 exchanges a second for 4 s, by the feed and a program
// as they run; counted, in time that does not pass by itself.
func TestFewDrawingsOfMuchTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var views atomic.Int64
		in, keys := io.Pipe()
		p := tea.NewProgram(counted{newModel(Options{Now: time.Now}), &views}, tea.WithInput(in), tea.WithOutput(io.Discard), tea.WithFPS(defaultFPS), tea.WithoutSignalHandler())
		ctx, stop := context.WithCancel(t.Context())
		src := newFake()
		f := feed{src: src, send: p.Send, now: time.Now, every: time.Second / defaultFPS}
		var all sync.WaitGroup
		all.Go(func() { f.exchanges(ctx) })
		all.Go(func() { f.status(ctx) })
		all.Go(func() {
			defer keys.Close()
			p.Send(tea.WindowSizeMsg{Width: 80, Height: 24})
			src.put(1)
			time.Sleep(time.Second) // the program has begun
			before := views.Load()
			for range 400 {
				src.put(50)
				time.Sleep(10 * time.Millisecond)
			}
			busy := views.Load() - before
			time.Sleep(time.Minute) // the rate has fallen to nothing
			before = views.Load()
			time.Sleep(time.Minute)
			idle := views.Load() - before
			t.Logf("%d drawings in 4 s, %d in an idle minute", busy, idle)
			if busy < 40 || busy >= 100 {
				t.Errorf("%d drawings in 4 s", busy)
			}
			if idle > 0 {
				t.Errorf("%d drawings in a minute in which nothing happens", idle)
			}
			stop()
			p.Quit()
		})
		end, err := p.Run()
		all.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if n := end.(counted).list.next; n != 20_001 {
			t.Errorf("%d rows arrived", n)
		}
	})
}
