package relay_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/relay/facts"
	"lane/tunnel"
)

// A laptop that is away for more than half a minute, as in a sleep, has no instance any
// more; its claim stands for one life of the claims, so that its callers get no baseline
// in silence. Then it has both back without a conflict, or the claim goes too.
func TestALaptopThatIsAwayForLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	text := w.token(w.grant(nil))
	comes, stays := newJunction(t, r.addr), newJunction(t, r.addr)
	alice := w.laptop(comes.ln.Addr().String(), text, "box", says(t, "box"))
	alice.hold(w.claim())
	other := w.claim()
	other.Lane = "dev-shared"
	gone := w.laptop(stays.ln.Addr().String(), text, "desk", says(t, "desk"))
	gone.hold(other)
	_, n := alice.happened(tunnel.Claimed, 0)
	comes.lead("127.0.0.1:1")
	stays.lead("127.0.0.1:1")
	w.eventually("both are given up", func() bool { return len(r.audit.lines("gone")) == 2 })
	for _, line := range r.audit.lines("gone") {
		if line["why"] != "expired" {
			t.Errorf("the audit log: %v", line)
		}
	}
	if in, cl := w.instances(), w.claims(); len(in) != 0 || len(cl) != 1 || cl[0].Session == "" || cl[0].Install != "box" {
		t.Errorf("away: %v %+v", in, cl)
	}
	den := w.laptop(r.addr, text, "den", says(t, "den"))
	if _, err := den.try(w.claim()); refusal(err) != http.StatusConflict {
		t.Errorf("another machine, meanwhile: %v", err)
	}
	comes.lead(r.addr)
	e, _ := alice.happened(tunnel.Claimed, n)
	w.eventually("back", func() bool {
		in := w.instances()
		return len(in) == 1 && strings.Contains(in[0], e.Facts[facts.Address]+" passing")
	})
	if body := get(e.Facts[facts.Address], w.lane); body != "box" {
		t.Error(body)
	}
	w.eventually("the other claim goes", func() bool {
		all, err := w.client.Claims(t.Context(), "dev-shared")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if c.Service == w.service {
				return false
			}
		}
		return true
	})
	alice.release("one")
	w.nothing("released")
}

// A thousand requests at once, where a tunnel has 256 streams: each is served or told so
// with a 503, and none waits for ever.
func TestAThousandAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	const streams, callers = 256, 1000
	var in atomic.Int64
	full, free := make(chan struct{}), make(chan struct{})
	local := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if in.Add(1) == streams {
			close(full)
		}
		<-free
		_, _ = io.WriteString(rw, "box")
	}))
	t.Cleanup(local.Close)
	var once sync.Once
	letGo := func() { once.Do(func() { close(free) }) }
	t.Cleanup(letGo)
	l := w.laptop(r.addr, w.token(w.grant(nil)), "box", local.Listener.Addr().String())
	at := l.hold(w.claim())[facts.Address]
	said := make(chan string, callers)
	for range callers {
		go func() { said <- get(at, w.lane) }()
	}
	select {
	case <-full:
	case <-time.After(limit):
		t.Fatalf("%d arrived", in.Load())
	}
	count := map[string]int{}
	count[<-said]++ // the first that waits no longer
	if n := in.Load(); n > streams {
		t.Errorf("%d at once", n)
	}
	letGo()
	for range callers - 1 {
		select {
		case s := <-said:
			count[s]++
		case <-time.After(limit):
			t.Fatalf("somebody waits: %v", count)
		}
	}
	if count["box"] < streams || count["503 E_RELAY_LOST"] == 0 || count["box"]+count["503 E_RELAY_LOST"] != callers {
		t.Errorf("%v", count)
	}
	if n := r.figures.Limited()["streams"]; n == 0 {
		t.Error("not counted")
	}
	if body := get(at, w.lane); body != "box" {
		t.Errorf("afterwards: %s", body)
	}
}
