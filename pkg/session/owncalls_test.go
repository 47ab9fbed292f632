package session_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
)

// waiter answers a path when that is let go; /quick it answers at once.
type waiter struct {
	addr   string
	inside chan string // the paths, as they come
	let    map[string]chan struct{}
}

func newWaiter(t *testing.T, paths ...string) *waiter {
	t.Helper()
	s := &waiter{inside: make(chan string, 100), let: map[string]chan struct{}{}}
	for _, p := range paths {
		s.let[p] = make(chan struct{})
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait, ok := s.let[r.URL.Path]; ok {
			s.inside <- r.URL.Path
			select {
			case <-wait:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "answered")
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	s.addr = srv.Listener.Addr().String()
	return s
}

// through is a client of the session's proxy.
func through(t *testing.T, st control.Status) *http.Client {
	t.Helper()
	u, err := url.Parse(st.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{Proxy: http.ProxyURL(u)}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// call asks on a goroutine of its own.
func call(c *http.Client, url string) <-chan error {
	done := make(chan error, 1)
	go func() {
		resp, err := c.Get(url)
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err == nil && string(body) != "answered" {
			err = errors.New(string(body))
		}
		done <- err
	}()
	return done
}

// refusesNew waits until the session's proxy takes no connection any more.
func refusesNew(t *testing.T, st control.Status) {
	t.Helper()
	eventually(t, "the proxy takes no connection", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(st.Proxy, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
}

// The session's own calls are waited for as those are that come to a guard, also where
// there is none. One that began meanwhile does not hold the registry up, as who goes on
// asking would for ever, but has its answer too.
func TestAnEndWaitsForTheSessionsOwnCalls(t *testing.T) {
	for name, services := range map[string]bool{"serves": true, "only colors": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			o := w.options("box")
			o.Drain = 10 * time.Minute
			if !services {
				o.Services = nil
			}
			r := run(t, o)
			far := newWaiter(t, "/first", "/second")
			st := r.up()
			client := through(t, st)
			first := call(client, "http://"+far.addr+"/first")
			<-far.inside
			r.end(errEnd)
			eventually(t, "draining", func() bool { return r.status().State == control.SessionDraining })
			second := call(client, "http://"+far.addr+"/second")
			<-far.inside
			select {
			case <-r.done:
				t.Fatal("the session has ended, with a call under way")
			default:
			}
			close(far.let["/first"])
			if err := <-first; err != nil {
				t.Errorf("the call under way: %v", err)
			}
			refusesNew(t, st) // the first was waited for, and nothing new comes in
			w.empty()
			close(far.let["/second"])
			if err := <-second; err != nil {
				t.Errorf("the call that began meanwhile: %v", err)
			}
			if err := r.wait(); !errors.Is(err, errEnd) {
				t.Error(err)
			}
		})
	}
}

// Nobody has to wait: not who says so at once, and not who says so at the very end.
func TestAForcedEndCutsTheSessionsOwnCalls(t *testing.T) {
	for name, late := range map[string]bool{"at once": false, "at the end": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			o := w.options("box")
			o.Drain = 10 * time.Minute
			r := run(t, o)
			far := newWaiter(t, "/first", "/second")
			st := r.up()
			client := through(t, st)
			first := call(client, "http://"+far.addr+"/first")
			<-far.inside
			r.end(errEnd)
			if late {
				eventually(t, "draining", func() bool { return r.status().State == control.SessionDraining })
				second := call(client, "http://"+far.addr+"/second")
				<-far.inside
				close(far.let["/first"])
				if err := <-first; err != nil {
					t.Error(err)
				}
				refusesNew(t, st)
				first = second
			}
			if err := r.ctl().Stop(t.Context(), true); err != nil {
				t.Errorf("Stop = %v", err)
			}
			if err := <-first; err == nil {
				t.Error("the call was answered, by a server that does not")
			}
			if err := r.wait(); !errors.Is(err, errEnd) {
				t.Error(err)
			}
			w.empty()
		})
	}
}

// The drain time is the longest wait, for the session's own calls too.
func TestTheDrainTimeEndsTheWaitForOwnCalls(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Drain = 50 * time.Millisecond
	r := run(t, o)
	far := newWaiter(t, "/never")
	under := call(through(t, r.up()), "http://"+far.addr+"/never")
	<-far.inside
	if err := r.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
	if err := <-under; err == nil {
		t.Error("the call was answered, by a server that does not")
	}
}

// What is no request under way holds no end up, however long the drain time is: a
// connection that is kept for the next call, a tunnel that is not read, an upgraded one.
func TestWhatHoldsNoEndUp(t *testing.T) {
	for name, hold := range map[string]func(t *testing.T, st control.Status, far *waiter){
		"an idle connection": func(t *testing.T, st control.Status, far *waiter) {
			if err := <-call(through(t, st), "http://"+far.addr+"/quick"); err != nil {
				t.Fatal(err)
			}
		},
		"a tunnel": func(t *testing.T, st control.Status, far *waiter) {
			conn, br := dialProxy(t, st, "CONNECT "+far.addr+" HTTP/1.1\r\nHost: "+far.addr+"\r\n\r\n")
			if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v %v", resp, err)
			}
			fmt.Fprint(conn, "\x16\x03\x01") // of TLS, which never comes about
		},
		"an upgraded connection": func(t *testing.T, st control.Status, _ *waiter) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				br := bufio.NewReader(conn)
				if _, err := http.ReadRequest(br); err != nil {
					return
				}
				fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_, _ = br.ReadByte() // until the other side ends
			}()
			t.Cleanup(func() { _ = ln.Close(); <-served })
			_, br := dialProxy(t, st, "GET http://"+ln.Addr().String()+"/ HTTP/1.1\r\nHost: "+ln.Addr().String()+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%v %v", resp, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			o := w.options("box")
			o.Drain = 10 * time.Minute
			r := run(t, o)
			hold(t, r.up(), newWaiter(t))
			if err := r.stop(); !errors.Is(err, errEnd) {
				t.Error(err)
			}
			w.empty()
		})
	}
}

// dialProxy sends a head to the session's proxy.
func dialProxy(t *testing.T, st control.Status, head string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(st.Proxy, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// A relay's tunnel stands for as long as a call of the session's goes through it.
func TestAnEndWaitsForOwnCallsThroughARelay(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Drain = 10 * time.Minute
	o.Relay, _ = w.relayed()
	r := run(t, o)
	st := r.up()
	// The call goes to the session's own service, and comes in again by the tunnel.
	under := make(chan error, 1)
	go func() {
		resp, err := through(t, st).Get("http://" + w.service("orders") + "/slow")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status + " " + resp.Header.Get("X-Lane-Error") + " " + resp.Header.Get("X-Lane-Decision"))
			}
		}
		under <- err
	}()
	select {
	case <-w.local.inside:
	case err := <-under:
		t.Fatalf("the call did not come in: %v", err)
	}
	r.end(errEnd)
	eventually(t, "draining", func() bool { return r.status().State == control.SessionDraining })
	close(w.local.slow)
	if err := <-under; err != nil {
		t.Error(err)
	}
	if err := r.wait(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
	w.empty()
}
