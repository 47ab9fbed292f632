package cmd

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lane/pkg/control"
	"lane/pkg/doctor"
	"lane/pkg/iostreams"
	"lane/pkg/traffic"
)

// newDeeds are deeds of a session whose proxy is the handler.
func newDeeds(t *testing.T, env map[string]string, proxy http.HandlerFunc) (*deeds, *bytes.Buffer) {
	t.Helper()
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	var out bytes.Buffer
	f := &factory{io: &iostreams.IOStreams{Out: &out}, dir: t.TempDir(),
		getenv: func(k string) string { return env[k] }}
	return &deeds{proxied{url: srv.URL}, f}, &out
}

// proxied is a session of which nothing is asked but its proxy.
type proxied struct {
	watched
	url string
}

func (p proxied) Status(context.Context) (control.Status, error) {
	return control.Status{Proxy: p.url}, nil
}

func TestARequestIsSentAgain(t *testing.T) {
	var got *http.Request
	var body []byte
	d, _ := newDeeds(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Location", "http://elsewhere/")
		w.Header().Set("X-Lane-Decision", "LANE_MATCH; lane=dev-alice")
		w.WriteHeader(302)
		_, _ = io.WriteString(w, "moved")
	})
	e := traffic.Exchange{Front: traffic.FrontGuard, Service: "orders", Method: "POST", URL: "http://10.2.0.77:4011/a?b=%20", Tag: "dev-alice", ReqSize: 2,
		ReqHeader: traffic.HeadText("X-Lane-Tag: dev-alice\r\nbaggage: lane=dev-alice,x=1\r\nX-Lane-Hops: 1\r\nAuthorization: Bearer s\r\nContent-Length: 2\r\n"),
		ReqBody:   &traffic.Body{Bytes: []byte("\x00b")}}
	a, err := d.Send(t.Context(), &e, "")
	if err != nil || a.Status != 302 || string(a.Body) != "moved" || a.Decision != "LANE_MATCH; lane=dev-alice" || a.Err != "" {
		t.Fatalf("%+v, %v", a, err)
	}
	want := http.Header{"X-Lane-Tag": {"dev-alice"}, "Baggage": {"lane=dev-alice,x=1"}, "Authorization": {"Bearer s"}, "Content-Length": {"2"}}
	if got.Method != "POST" || got.RequestURI != "http://orders/a?b=%20" || string(body) != "\x00b" || !sameHeader(got.Header, want) {
		t.Errorf("sent %s %s %q %q", got.Method, got.RequestURI, got.Header, body)
	}
	// With another tag nothing of the old one goes.
	if _, err := d.Send(t.Context(), &e, "baseline"); err != nil {
		t.Fatal(err)
	}
	want["X-Lane-Tag"], want["Baggage"] = []string{"baseline"}, []string{"x=1"}
	if !sameHeader(got.Header, want) {
		t.Errorf("sent %q", got.Header)
	}
	// No answer is no error: it is what came of it.
	d.watched = proxied{url: "http://127.0.0.1:1"}
	if a, err := d.Send(t.Context(), &e, ""); err != nil || !strings.Contains(a.Err, "refused") {
		t.Errorf("%+v, %v", a, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Send(gone, &e, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func sameHeader(got, want http.Header) bool {
	got = got.Clone()
	for _, k := range []string{"Connection", "Proxy-Connection"} {
		got.Del(k)
	}
	if len(got) != len(want) {
		return false
	}
	for k, v := range want {
		if strings.Join(got[k], "|") != strings.Join(v, "|") {
			return false
		}
	}
	return true
}

func TestASavedFileIsTheUsersAlone(t *testing.T) {
	d, _ := newDeeds(t, nil, nil)
	if path, err := d.Save("a.har", []byte("{}")); err != nil || path != "./a.har" {
		t.Fatalf("%q, %v", path, err)
	}
	path := filepath.Join(d.f.dir, "a.har")
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if _, err := d.Save("a.har", []byte("other")); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file that is there: %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "{}" {
		t.Errorf("it holds %q", b)
	}
}

func TestCopy(t *testing.T) {
	d, out := newDeeds(t, map[string]string{"TERM": "xterm-256color"}, nil)
	if where, err := d.Copy(t.Context(), "curl it"); err != nil || where != "sent to the terminal's clipboard" {
		t.Errorf("%q, %v", where, err)
	}
	if want := "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte("curl it")) + "\a"; out.String() != want {
		t.Errorf("the terminal got %q", out)
	}
	// A terminal without a clipboard, and a text that is too long for one.
	for term, text := range map[string]string{"linux": "curl it", "xterm": strings.Repeat("x", clipboardMost+1)} {
		dir := filepath.Join(t.TempDir(), "run")
		d, out := newDeeds(t, map[string]string{"TERM": term, "LANE_RUNTIME_DIR": dir}, nil)
		for range 2 { // the second one takes the place of the first
			where, err := d.Copy(t.Context(), text)
			if err != nil || where != filepath.Join(dir, "copied.sh") || out.Len() > 0 {
				t.Fatalf("%s: %q, %v, %d bytes to the terminal", term, where, err, out.Len())
			}
			if b, err := os.ReadFile(where); err != nil || string(b) != text+"\n" {
				t.Errorf("%s: the file has %d bytes, %v", term, len(b), err)
			}
		}
	}
}

// A session knows of its own tunnel what the settings do not: the relay may be a flag's.
func TestTheDoctorHearsOfTheTunnel(t *testing.T) {
	for _, r := range []*control.RelayStatus{nil, {State: control.RelayOK}} {
		if got := tunnelled(r); len(got) != 0 {
			t.Errorf("%+v: %+v", r, got)
		}
	}
	got := tunnelled(&control.RelayStatus{URL: "wss://relay.test", State: control.RelayLost, Error: "connection refused"})
	if len(got) != 1 || got[0].Level != doctor.Wrong || got[0].Where != "wss://relay.test" || got[0].What != "the session's tunnel is lost: connection refused" {
		t.Errorf("%+v", got)
	}
}
