//go:build unix

package whitelist

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// load lets workers ask for a user of their own, for new users and for ann, until
// it is stopped.
type load struct {
	asked   atomic.Int64
	longest atomic.Int64 // in nanoseconds
	stop    chan struct{}
	workers sync.WaitGroup
}

const workers = 8

func startLoad(t *testing.T, w *Whitelist) *load {
	t.Helper()
	l := &load{stop: make(chan struct{})}
	for i := range workers {
		l.workers.Go(func() {
			pace := time.NewTicker(time.Millisecond) // thousands in a second are enough
			defer pace.Stop()
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				case <-pace.C:
				}
				begin := time.Now()
				w.Member(t.Context(), "shop", fmt.Sprint("new-", i, "-", n))
				l.longest.Store(max(l.longest.Load(), int64(time.Since(begin))))
				w.Member(t.Context(), "shop", fmt.Sprint("worker-", i))
				w.Member(t.Context(), "shop", "ann")
				l.asked.Add(3)
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.workers.Wait()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(60 * time.Second)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// more waits until the load has asked for n users more.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	from := l.asked.Load()
	eventually(t, fmt.Sprintf("%d more requests", n), func() bool { return l.asked.Load() >= from+n })
}

func outage(t *testing.T, s *server, away, back func()) {
	s.cli(t, "SADD", "gateway:canary:shop", "ann")
	w := s.open(t, RedisOptions{})
	l := startLoad(t, w)
	l.more(t, 300)
	eventually(t, "ann is a member", func() bool { return w.Member(t.Context(), "shop", "ann") })

	before, begin := w.Stats().Errors, time.Now()
	away()
	eventually(t, "an error", func() bool { return w.Stats().Errors > before })
	l.more(t, 5000)
	eventually(t, "ann goes to the baseline", func() bool { return !w.Member(t.Context(), "shop", "ann") })
	// The first failures are those that were under way; after them one look-up a
	// second tries, whatever the traffic.
	if e, most := w.Stats().Errors-before, uint64(2*workers+2+time.Since(begin)/retried); e > most {
		t.Errorf("%d look-ups in %s without Redis, want %d at most", e, time.Since(begin), most)
	}

	back()
	s.cli(t, "SADD", "gateway:canary:shop", "ann", "bob")
	eventually(t, "ann is a member again", func() bool { return w.Member(t.Context(), "shop", "ann") })
	eventually(t, "bob is one, too", func() bool { return w.Member(t.Context(), "shop", "bob") })
	l.end()
	t.Logf("%d requests, the longest took %s; %+v", l.asked.Load(), time.Duration(l.longest.Load()), w.Stats())
}

func TestRedisIsKilledAndComesBack(t *testing.T) {
	t.Parallel() // most of it is waiting for what is remembered
	s := startRedis(t)
	outage(t, s, s.kill, func() {
		eventually(t, "a new Redis on the same port", func() bool { return s.start() == nil })
	})
}

func TestRedisHangsAndComesBack(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	outage(t, s, func() { s.signal(t, syscall.SIGSTOP) }, func() { s.signal(t, syscall.SIGCONT) })
}

// A Redis that is away for long is tried once a second, is found when it comes,
// and leaves nothing behind that tries: the bubble ends only if all in it has.
func TestRedisThatComesLate(t *testing.T) {
	s := startRedis(t)
	s.kill()
	start, started := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(start) })
	defer func() { begin(); <-started }()
	go func() { // outside of the bubble: a process takes real time
		defer close(started)
		<-start
		if err := s.start(); err != nil {
			t.Error(err)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		const seconds = 60
		w := s.open(t, RedisOptions{})
		for range seconds {
			member(t, w, "ann", false)
			member(t, w, "bob", false)
			time.Sleep(retried)
		}
		if got, want := w.Stats(), (Stats{Lookups: seconds, Errors: seconds, Unknown: 2 * seconds}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		failures(t, w, Unreachable, seconds)
		begin()
		<-started
		s.cli(t, "SADD", "gateway:canary:shop", "ann")
		for tries := 0; !w.Member(t.Context(), "shop", "ann"); tries++ {
			if tries == 3 {
				t.Fatal("not found within three seconds")
			}
			time.Sleep(retried)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s.kill()
		w := s.open(t, RedisOptions{})
		for range 60 {
			member(t, w, "ann", false)
			time.Sleep(retried)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second) // go-redis waits a second before it looks whether it is closed
	})
}

// With a hanging server the end of the program does not hang.
func TestCloseWhileRedisHangs(t *testing.T) {
	s := startRedis(t)
	w := s.open(t, RedisOptions{})
	member(t, w, "ann", false)
	s.signal(t, syscall.SIGSTOP)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { w.Member(t.Context(), "shop", fmt.Sprint("user-", i)) })
	}
	all.Wait()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
