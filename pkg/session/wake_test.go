package session_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/control"
)

// A machine that sleeps long loses its registration and its claim; when it wakes
// it has both again, once, and says so.
func TestAMachineThatSleptIsBack(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		o := w.options("box")
		var ahead atomic.Int64 // how far the wall clock went on while all else stood still
		o.Now = func() time.Time { return time.Now().Round(0).Add(time.Duration(ahead.Load())) }
		r := run(t, o)
		before := r.up().Services[0]

		w.tidy() // as Consul does after minutes without a beat
		ahead.Add(int64(2*time.Hour + 3*time.Minute))
		said := func() string {
			var out []string
			for _, e := range r.status().History {
				out = append(out, e.Text)
			}
			return strings.Join(out, "\n")
		}
		eventually(t, "it is back", func() bool { return strings.Contains(said(), "slept 2 h 03 m, back in ") })
		if strings.Count(said(), "slept") != 1 {
			t.Errorf("its history:\n%s", said())
		}
		eventually(t, "the claim", func() bool { return len(w.claims()) == 1 && len(w.sessions()) == 1 })
		in := w.instances()
		if len(in) != 1 || in[0].ID != before.ID {
			t.Errorf("instances %v, want %s alone", in, before.ID)
		}
		if st := r.status(); st.State != control.SessionUp || st.Services[0].State != control.StateUp {
			t.Errorf("its status: %s, %+v", st.State, st.Services[0])
		}
		if err := r.stop(); err == nil {
			t.Error("no cause of the end")
		}
		w.empty()
	})
}

// A status is green only while somebody could really come in.
func TestNothingIsUpWithoutProof(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := run(t, w.options("box"))
		v := r.up().Services[0]
		if v.State != control.StateUp {
			t.Errorf("it begins as %s (%s)", v.State, v.Note)
		}
		// The catalog shows another address under the ID: callers go astray.
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		astray := consul.Registration{ID: v.ID, Name: v.Name, Service: v.Name, Lane: w.lane, Address: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port}
		w.front.set(func(rw http.ResponseWriter, q *http.Request, next http.Handler, put int) {
			if put > 0 { // the session cannot set it right
				refuse(rw, q, next, put)
				return
			}
			next.ServeHTTP(rw, q)
		})
		if err := w.registry().NewHold(astray, consul.HoldOptions{App: true}).Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "no proof", func() bool { return r.status().Services[0].State != control.StateUp })
		w.front.set(nil)
		eventually(t, "up again", func() bool { return r.status().Services[0].State == control.StateUp })
		if got := r.status().Services[0].Note; got != "" {
			t.Errorf("its note is %q", got)
		}
		_ = r.stop()
		w.empty()
	})
}

// The proof asks the user's process nothing, and is no exchange.
func TestAProofIsSilent(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := run(t, w.options("box"))
	st := r.up()
	if got := w.stray(st.Services[0].Guard); !strings.HasPrefix(got, "503 ") {
		t.Errorf("an untagged request without a baseline: %s", got)
	}
	eventually(t, "the exchange", func() bool { return r.status().Counts.Exchanges == 1 })
	if st := r.status(); st.Counts.Guard["probe"] != 0 || st.Services[0].State != control.StateUp {
		t.Errorf("counts %+v, %+v", st.Counts, st.Services[0])
	}
	if code, body, err := w.ask(st, "/.lane/proof/guessed"); code != 200 || body != "local" || err != nil {
		t.Errorf("a path that is none of the guard's: %s", fmt.Sprint(code, body, err))
	}
	_ = r.stop()
	w.empty()
}
