package session_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/session"
)

// nearby is another address of this machine's own, as a VPN's would be.
var nearby = netip.AddrFrom4([4]byte{127, 0, 0, 2})

// machine has an address that the test changes, or none.
type machine struct {
	ip    atomic.Pointer[netip.Addr]
	looks atomic.Int64
}

func (m *machine) set(ip netip.Addr) { m.ip.Store(&ip) }

func (m *machine) detect(context.Context) (netip.Addr, error) {
	m.looks.Add(1)
	if ip := *m.ip.Load(); ip.IsValid() {
		return ip, nil
	}
	return netip.Addr{}, errors.New("network is unreachable")
}

// looked waits until the address was looked at so often again.
func (m *machine) looked(t *testing.T, times int64) {
	t.Helper()
	from := m.looks.Load()
	eventually(t, "the address is looked at", func() bool { return m.looks.Load() >= from+times })
}

// addresses are where the registry shows the lane's orders.
func (w *world) addresses() (at []string) {
	w.t.Helper()
	var entries []struct {
		Service struct {
			Address string
			Port    int
		}
	}
	w.get("/v1/health/service/"+w.service("orders"), &entries)
	for _, e := range entries {
		at = append(at, net.JoinHostPort(e.Service.Address, fmt.Sprint(e.Service.Port)))
	}
	return at
}

func TestAnotherAddressIsRegistered(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		var m machine
		m.set(loopback)
		r := run(t, session.Moving(w.options("box"), 10*time.Millisecond, m.detect))
		first := r.up()
		// A caller that goes where the registry says, all the time.
		ctx, end := context.WithCancel(t.Context())
		var calling sync.WaitGroup
		var asked atomic.Int64
		calling.Go(func() {
			for ctx.Err() == nil {
				at := w.addresses()
				if len(at) != 1 {
					t.Errorf("the registry shows %v", at)
					return
				}
				for tag, want := range map[string]bool{string(w.lane): true, "": false} {
					req, err := http.NewRequest(http.MethodGet, "http://"+at[0]+"/", nil)
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("x-lane-tag", tag)
					res, err := direct.Do(req)
					if err != nil {
						t.Errorf("at %s: %v", at[0], err)
						return
					}
					_ = res.Body.Close()
					if (res.StatusCode == http.StatusOK) != want {
						t.Errorf("tagged %q, at %s: %s", tag, at[0], res.Status)
					}
				}
				asked.Add(1)
			}
		})
		from := loopback
		for n, to := range []netip.Addr{nearby, loopback} {
			was := asked.Load()
			m.set(to)
			eventually(t, "it stands at "+to.String(), func() bool {
				at := w.addresses()
				return len(at) == 1 && strings.HasPrefix(at[0], to.String()+":")
			})
			eventually(t, "the status says so", func() bool {
				st := r.status()
				v := st.Services[0]
				if v.State == control.StateUp && v.Guard != w.addresses()[0] {
					t.Errorf("up at %s, and the registry shows %v", v.Guard, w.addresses())
				}
				return v.State == control.StateUp && v.Guard == w.addresses()[0] && v.ID == first.Services[0].ID && len(st.History) == n+1 &&
					st.History[n].Text == fmt.Sprintf("address changed %s -> %s, registered again", from, to)
			})
			eventually(t, "calls go on", func() bool { return asked.Load() > was+10 || t.Failed() })
			from = to
		}
		end()
		calling.Wait()
		st := r.status()
		if err := r.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		w.empty()
		free(t, first.Services[0].Guard, st.Services[0].Guard)
	})
}

// A registry that is away is told when it is back, and the status says so until then.
func TestAnotherAddressWaitsForTheRegistry(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	var m machine
	m.set(loopback)
	r := run(t, session.Quicken(session.Moving(w.options("box"), 10*time.Millisecond, m.detect), time.Second, quick))
	r.up()
	w.front.cut()
	m.set(nearby)
	eventually(t, "the status says that it is not there yet", func() bool {
		v := r.status().Services[0]
		return v.State == control.StateUnconfirmed && strings.HasPrefix(v.Guard, nearby.String()+":")
	})
	if n := len(r.status().History); n != 0 {
		t.Errorf("%d things are told of it", n)
	}
	w.front.set(nil)
	eventually(t, "it is up there", func() bool {
		at := w.addresses()
		return len(at) == 1 && strings.HasPrefix(at[0], nearby.String()+":") && r.status().Services[0].State == control.StateUp
	})
	eventually(t, "it is told", func() bool { return len(r.status().History) == 1 })
	if err := r.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
	w.empty()
}

// What changes while the session starts is no address to stay at.
func TestAnAddressThatChangesDuringTheStartIsFollowed(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	var m machine
	m.set(loopback)
	o := session.Moving(w.options("box"), 10*time.Millisecond, m.detect)
	o.At = func(step string) {
		if step == "register" {
			m.set(nearby)
		}
	}
	r := run(t, o)
	r.up()
	eventually(t, "it stands at the new one", func() bool {
		at := w.addresses()
		return len(at) == 1 && strings.HasPrefix(at[0], nearby.String()+":")
	})
	if err := r.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
	w.empty()
}

func TestAnAddressStays(t *testing.T) {
	for name, happens := range map[string]func(t *testing.T, m *machine){
		"no network for a while": func(t *testing.T, m *machine) {
			m.set(netip.Addr{})
			m.looked(t, 20)
			m.set(loopback)
			m.looked(t, 5)
		},
		"the same": func(t *testing.T, m *machine) { m.looked(t, 20) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			var m machine
			m.set(loopback)
			r := run(t, session.Moving(w.options("box"), 10*time.Millisecond, m.detect))
			first := r.up()
			w.front.set(nil)
			happens(t, &m)
			w.stays(r, first)
		})
	}
	t.Run("given", func(t *testing.T) {
		w := newWorld(t, consultest.Embedded(t))
		var m machine
		m.set(nearby)
		o := session.Moving(w.options("box"), 10*time.Millisecond, m.detect)
		o.Advertise = loopback
		r := run(t, o)
		first := r.up()
		w.front.set(nil)
		eventually(t, "it has beaten for a while", func() bool { return len(w.front.writes()) > 10 })
		if n := m.looks.Load(); n != 0 {
			t.Errorf("it was looked for %d times", n)
		}
		w.stays(r, first)
	})
}

// stays fails the test if a session has registered again since the front was set.
func (w *world) stays(r *running, first control.Status) {
	w.t.Helper()
	for _, put := range w.front.writes() {
		if strings.Contains(put, "register") {
			w.t.Errorf("registered again: %s", put)
		}
	}
	st := r.status()
	if v := st.Services[0]; len(st.History) != 0 || v.State != control.StateUp || v.Guard != first.Services[0].Guard {
		w.t.Errorf("%+v, history %v", v, st.History)
	}
	if err := r.stop(); !errors.Is(err, errEnd) {
		w.t.Error(err)
	}
	w.empty()
}

func TestWhatIsSeenOnceIsNoNewAddress(t *testing.T) {
	none := errors.New("network is unreachable")
	a, b := loopback, nearby
	for name, c := range map[string]struct {
		looks []any
		want  bool
	}{
		"the same":         {[]any{a, a, a}, false},
		"once":             {[]any{b}, false},
		"twice":            {[]any{b, b}, true},
		"once, and back":   {[]any{b, a, b}, false},
		"none between":     {[]any{b, none, b}, false},
		"none":             {[]any{none, none}, false},
		"none, then twice": {[]any{none, b, b}, true},
	} {
		got := false
		m := session.NewMoves(a)
		for _, l := range c.looks {
			ip, _ := l.(netip.Addr)
			err, _ := l.(error)
			got = m.Take(ip, err)
		}
		if got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
