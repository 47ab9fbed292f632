package session_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/session"
)

// ill shows the instances of a service as critical while held.
func ill(service string, held *atomic.Bool) spoiler {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int) {
		if r.URL.Path != "/v1/health/service/"+service || r.URL.Query().Has("filter") { // whoever registers asks for its own
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		maps.Copy(w.Header(), rec.Header())
		w.Header().Del("Content-Length") // the other word is longer
		body := rec.Body.Bytes()
		if held.Load() {
			body = bytes.ReplaceAll(body, []byte(`"passing"`), []byte(`"critical"`))
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body) // whom the session does not wait for any more
	}
}

// proofs is how often in a row a start that waits has to be seen with its proof: one that
// does not wait is over right behind it.
const proofs = 20

// A session is not up before its instance passes where it looks: the first call would get
// an error that the next one does not.
func TestAStartWaitsForItsInstanceToPass(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	var held atomic.Bool
	held.Store(true)
	w.front.set(ill(w.service("orders"), &held))
	// No limit of the product's is to end the wait in place of the instance.
	o := session.Passing(session.Quicken(w.options("box"), 10*time.Minute, quick), 10*time.Minute)
	over := make(chan bool, 1)
	o.At = func(step string) {
		if step == "command" { // the one behind the registration
			over <- held.Load()
		}
	}
	ctl := control.Dial(o.RuntimeDir, os.Getpid())
	r := run(t, o)
	in := 0
	eventually(t, "the start waits, or has not waited", func() bool {
		select {
		case early := <-over:
			over <- early
			return true
		default:
		}
		st, err := ctl.Status(t.Context())
		if err != nil || st.State != control.SessionStarting || len(st.Services) != 1 || st.Services[0].State != control.StateUp {
			in = 0 // not yet there
			return false
		}
		in++
		return in == proofs
	})
	held.Store(false)
	w.stir()
	if <-over {
		t.Error("the start was over while its instance did not pass")
	}
	if code, by, err := w.ask(r.up(), "/"); code != http.StatusOK || err != nil {
		t.Errorf("%d %s %v", code, by, err)
	}
}

// stir changes what the registry says of orders: who waits for news is answered.
func (w *world) stir() {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, "http://"+w.addr+"/v1/agent/service/register",
		strings.NewReader(`{"ID":"stirred-`+w.service("orders")+`","Name":"`+w.service("orders")+`","Address":"127.0.0.1","Port":9}`))
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := direct.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatal(res.Status, err)
	}
}

// Nor does it wait for ever for one that never passes, and not at all for one that cannot:
// the local process is down.
func TestAStartDoesNotWaitForEverForItsInstanceToPass(t *testing.T) {
	for name, down := range map[string]bool{"never": false, "the process is down": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			var held atomic.Bool
			held.Store(true)
			w.front.set(ill(w.service("orders"), &held))
			o, limit := w.options("box"), time.Millisecond
			if down {
				w.local.close()
				limit = 10 * time.Minute
			}
			r := run(t, session.Passing(session.Quicken(o, 10*time.Minute, quick), limit))
			if st := r.up(); st.State != control.SessionUp {
				t.Errorf("%+v", st)
			}
		})
	}
}
