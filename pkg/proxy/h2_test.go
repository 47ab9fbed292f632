package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// viaH2 runs a test directly, at the guard and inside CONNECT, each with a client of
// its own that has one HTTP/2 connection.
func viaH2(t *testing.T, h http.HandlerFunc, test func(t *testing.T, c *http.Transport)) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	addr := strings.TrimPrefix(srv.URL, "http://")
	e := newEnv(t, nil)
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "h2", InstanceID: "h2-alice", Local: []string{addr}})
	e.reg.set(service("h2", instance("h2-alice", addr, "dev-alice")))
	to := func(addr string) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}
	for _, way := range []struct {
		name string
		dial func(context.Context, string, string) (net.Conn, error)
	}{
		{"direct", to(addr)}, {"guard", to(guard)},
		{"inside CONNECT", func(ctx context.Context, _, _ string) (net.Conn, error) { return dialConnect(ctx, e.addr, "h2:80") }},
	} {
		t.Run(way.name, func(t *testing.T) {
			tr := &http.Transport{Protocols: new(http.Protocols), DialContext: way.dial}
			tr.Protocols.SetUnencryptedHTTP2(true)
			defer tr.CloseIdleConnections()
			test(t, tr)
		})
	}
}

func h2Ask(t *testing.T, method, path string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://h2"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Lane-Tag", "dev-alice")
	return req
}

// Trailers go both ways, long ones too, whether they were announced or not.
func TestH2Trailers(t *testing.T) {
	long := strings.Repeat("t", 16<<10)
	viaH2(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced, X-Got")
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, len(body), err)
		w.(http.Flusher).Flush()
		w.Header().Set("X-Announced", long)
		w.Header().Set("X-Got", fmt.Sprint(r.Trailer))
		w.Header().Set(http.TrailerPrefix+"X-Late", long)
	}, func(t *testing.T, c *http.Transport) {
		req := h2Ask(t, "POST", "/", nil)
		req.Trailer = http.Header{"X-Sum": nil}
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), atEnd(func() { req.Trailer.Set("X-Sum", "1f") })))
		resp, err := c.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "4 <nil>" {
			t.Errorf("%q %v", b, err)
		}
		want := http.Header{"X-Announced": {long}, "X-Got": {"map[X-Sum:[1f]]"}, "X-Late": {long}}
		if diff := cmp.Diff(want, resp.Trailer); diff != "" {
			t.Error(diff)
		}
	})
}

// atEnd is an empty body that calls when its end is read.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) { f(); return 0, io.EOF }

// A caller that does not read one answer gets the others, on the same connection.
func TestH2StalledStream(t *testing.T) {
	viaH2(t, func(w http.ResponseWriter, r *http.Request) {
		n := 1
		if r.URL.Path == "/large" {
			n = 32 << 20 / len(bigChunk)
		}
		for range n {
			if _, err := w.Write(bigChunk); err != nil {
				return
			}
		}
	}, func(t *testing.T, c *http.Transport) {
		large, err := c.RoundTrip(h2Ask(t, "GET", "/large", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer large.Body.Close()
		for range 3 {
			resp, err := c.RoundTrip(h2Ask(t, "GET", "/small", nil))
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(len(bigChunk)) {
				t.Errorf("%d %v", n, err)
			}
			resp.Body.Close()
		}
		if n, err := io.Copy(io.Discard, large.Body); err != nil || n != 32<<20 {
			t.Errorf("%d %v", n, err)
		}
	})
}

var bigChunk = make([]byte, 64<<10)

// A caller that leaves in the middle of an upload, or of an answer, ends the call at
// the server.
func TestH2CallerLeaves(t *testing.T) {
	ended := make(chan error, 1)
	viaH2(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		_, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			<-r.Context().Done()
			err = r.Context().Err()
		}
		ended <- err
	}, func(t *testing.T, c *http.Transport) {
		upload, more := io.Pipe()
		for _, body := range []io.Reader{nil, upload} {
			resp, err := c.RoundTrip(h2Ask(t, "POST", "/", body))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close() // resets the stream
			if err := <-ended; err == nil {
				t.Error("the server saw no end")
			}
		}
		more.Close()
	})
}

// A server that stops and is there again: what runs in the old one ends there, and
// no call is lost in between.
func TestGRPCServerGoesAway(t *testing.T) {
	s := newGShop(t)
	c := dialGRPC(t, s.addr, "order-service:1")
	st, err := c.NewStream(shortly(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/t.T/Bidi")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Header(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); s.local.srv.GracefulStop() }()
	eventually(t, "it takes no connection", func() bool {
		conn, err := net.Dial("tcp", s.local.addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	again := newEchoAt(t, "again", s.local.addr)
	eventually(t, "calls come to the new one", func() bool {
		out := &wrapperspb.StringValue{}
		if err := c.Invoke(shortly(t), "/t.T/Unary", str("x"), out); err != nil {
			t.Fatal(err)
		}
		return out.Value == "again x"
	})
	if again.hits.Load() == 0 {
		t.Error("the new one was not called")
	}
	if err := st.SendMsg(str("a")); err != nil {
		t.Fatal(err)
	}
	_ = st.CloseSend()
	if all, err := recvAll(t, st); all != "a;" || !errors.Is(err, io.EOF) {
		t.Errorf("%q %v", all, err)
	}
	<-gone
}

// A client of net/http that speaks h2c, without gRPC: a body both ways.
func TestH2C(t *testing.T) {
	local := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(local.Close)
	addr := newEnv(t, nil).guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{local.Listener.Addr().String()}})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	// The local process speaks HTTP/1 only: nothing is translated, and that is said.
	req := &http.Request{Method: "GET", URL: &url.URL{Scheme: "http", Host: addr, Path: "/"}, Header: http.Header{"X-Lane-Tag": {"dev-alice"}}}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 502 || resp.ProtoMajor != 2 {
		t.Errorf("%d %s", resp.StatusCode, resp.Proto)
	}
}
