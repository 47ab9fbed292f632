package cmd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lane/pkg/consul/consultest"
	"lane/pkg/consul/dev"
	"lane/pkg/doctor"
	"lane/pkg/iostreams"
	"lane/pkg/printer"
)

// diagnose runs lane doctor, and returns its exit code and what it found.
func (d *desk) diagnose(args ...string) (int, doctorResult) {
	d.t.Helper()
	code, out, errOut := d.run(append([]string{"doctor", "--json"}, args...)...)
	var res doctorResult
	if err := json.Unmarshal([]byte(out), &res); err != nil || res.Schema != "lane.doctor/v1" {
		d.t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	return code, res
}

// find is the findings of one check.
func (r doctorResult) find(check string) (out []doctor.Finding) {
	for _, f := range r.Findings {
		if f.Check == check {
			out = append(out, f)
		}
	}
	return out
}

func (r doctorResult) says(check string, l doctor.Level, word string) bool {
	return slices.ContainsFunc(r.find(check), func(f doctor.Finding) bool {
		return f.Level == l && strings.Contains(f.What+" | "+f.Where+" | "+f.Do, word)
	})
}

func TestDoctorWithNothingReachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, addr := range map[string]string{"refused": "127.0.0.1:1", "silent": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, addr)
			code, res := d.diagnose("-s", "orders=1")
			if code != exitUnreachable || res.Result != doctor.Away {
				t.Errorf("exit code %d, %s", code, res.Result)
			}
			for check, l := range map[string]doctor.Level{"settings": doctor.Well, "registry": doctor.Away, "ports": doctor.Note,
				"sessions": doctor.Well, "proxies": doctor.Well} {
				if !res.says(check, l, "") {
					t.Errorf("%s: %+v", check, res.find(check))
				}
			}
			if len(res.find("rights"))+len(res.find("agents"))+len(res.find("leftovers")) != 0 {
				t.Errorf("it asked a registry that is not there: %+v", res.Findings)
			}
			if len(res.Settings) < 10 {
				t.Errorf("settings: %+v", res.Settings)
			}
			if there(filepath.Join(d.env["LANE_RUNTIME_DIR"], "1.sock")) {
				t.Error("it left something")
			}
		})
	}
}

func TestDoctorChangesNothing(t *testing.T) {
	d := newDesk(t, consultest.Embedded(t))
	home := t.TempDir()
	d.env["LANE_STATE_DIR"], d.env["LANE_RUNTIME_DIR"] = filepath.Join(home, "s"), filepath.Join(home, "r")
	before := d.holds()
	if code, res := d.diagnose("-s", "orders=1"); code != exitOK || !slices.Equal(d.holds(), before) {
		t.Errorf("%d, %q: %+v", code, d.holds(), res.Findings)
	}
	if made, _ := os.ReadDir(home); len(made) != 0 {
		t.Errorf("it made %v", made)
	}
}

func TestDoctorOnARegistry(t *testing.T) {
	consultest.EachOwn(t, func(t *testing.T, addr string) {
		d := newDesk(t, addr)
		d.call("PUT", "/v1/agent/service/register", map[string]any{"ID": "o1", "Name": "orders", "Address": "127.0.0.1", "Port": 9, "Tags": []string{"traefik.enable=true"}}, nil)
		d.laneInstance("dev-dave", "orders", "da7e", "passing")
		app := httptest.NewServer(http.NotFoundHandler())
		defer app.Close()
		service := "orders=" + strings.TrimPrefix(app.URL, "http://127.0.0.1:")
		code, res := d.diagnose("-s", service, "--lane", "dev-alice")
		if code != exitOK {
			t.Errorf("exit code %d: %+v", code, res.Findings)
		}
		for _, w := range []struct {
			check string
			l     doctor.Level
			word  string
		}{
			{"registry", doctor.Well, "Consul 1.14.11"}, {"rights", doctor.Well, "off"}, {"agents", doctor.Well, "node"},
			{"clock", doctor.Well, "agree"}, {"address", doctor.Note, "127.0.0.1"}, {"header", doctor.Well, "directly"},
			{"leftovers", doctor.Well, ""}, {"consumers", doctor.Note, "orders: tag traefik.enable=true"}, {"consumers", doctor.Note, "DNS"},
			{"ports", doctor.Well, "listens here for orders"},
		} {
			if !res.says(w.check, w.l, w.word) {
				t.Errorf("%s %s %q: %+v", w.check, w.l, w.word, res.find(w.check))
			}
		}
		// What is wrong is found, and named.
		left := d.laneInstance("dev-alice", "orders", d.install, "critical")
		d.claim("dev-alice", "orders", d.install, d.host)
		sock := d.deadSocket()
		code, res = d.diagnose("-s", service)
		if code != exitFailed || !res.says("leftovers", doctor.Wrong, left) || !res.says("leftovers", doctor.Wrong, "lane/declared/dev-alice/orders") ||
			!res.says("sessions", doctor.Note, sock) || !there(sock) {
			t.Errorf("exit code %d, socket there: %v: %+v", code, there(sock), res.Findings)
		}
	})
}

func TestDoctorGoesOnWithWrongSettings(t *testing.T) {
	d := newDesk(t, consultest.Embedded(t))
	d.env["LANE_DRAIN"] = "soon"
	code, res := d.diagnose()
	if code != exitFailed || !res.says("settings", doctor.Wrong, "LANE_DRAIN") || !res.says("registry", doctor.Well, "") || res.Settings != nil {
		t.Errorf("exit code %d: %+v", code, res)
	}
	delete(d.env, "LANE_DRAIN")
	if code, res := d.diagnose(); code != exitOK || res.Settings == nil {
		t.Errorf("corrected: %d: %+v", code, res)
	}
}

func TestDoctorSeesTheBalancerBeforeTheAgents(t *testing.T) {
	var agents []http.Handler
	for _, name := range []string{"n1", "n2"} {
		u, err := url.Parse("http://" + consultest.Serve(t, dev.New(dev.Options{NodeName: name})))
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, httputil.NewSingleHostReverseProxy(u))
	}
	var turn atomic.Int64
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents[turn.Add(1)%2].ServeHTTP(w, r)
	}))
	defer balancer.Close()
	d := newDesk(t, strings.TrimPrefix(balancer.URL, "http://"))
	if code, res := d.diagnose(); code != exitFailed || !res.says("agents", doctor.Wrong, "n1, n2") {
		t.Errorf("exit code %d: %+v", code, res.Findings)
	}
}

// What something on the way does to the tag.
func TestDoctorsWays(t *testing.T) {
	var edit func(http.Header)
	through := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edit(r.Header)
		(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}).ServeHTTP(w, r)
	}))
	defer through.Close()
	by, err := url.Parse(through.URL)
	if err != nil {
		t.Fatal(err)
	}
	d := newDiagnosis(newDesk(t, "127.0.0.1:1").factory(&iostreams.IOStreams{}), &doctorOptions{})
	defer d.close()
	e := &ear{heard: map[string]http.Header{}}
	srv := httptest.NewServer(e)
	defer srv.Close()
	target, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit func(http.Header)
		want string
	}{
		"lets it through": {func(http.Header) {}, "arrives"},
		"takes it off":    {func(h http.Header) { h.Del("x-lane-tag") }, "X-Lane-Tag is taken off"},
		"rewrites it":     {func(h http.Header) { h.Set("baggage", "a=b") }, `Baggage is rewritten to "a=b"`},
	} {
		edit = c.edit
		w := d.way(t.Context(), e, target, by)
		if got := w.Findings(); len(got) != 1 || !strings.Contains(got[0].What, c.want) || !strings.Contains(got[0].Where, by.Host) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	answers := httptest.NewServer(http.NotFoundHandler()) // a proxy that does not pass it on
	defer answers.Close()
	if by, err = url.Parse(answers.URL); err != nil {
		t.Fatal(err)
	}
	if w := d.way(t.Context(), e, target, by); w.Err == nil || w.Findings()[0].Level != doctor.Note {
		t.Errorf("%+v", w)
	}
}

func TestDoctorsProbe(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		tag := r.Header.Get("x-lane-tag")
		switch r.URL.Path {
		case "/echo":
			fmt.Fprintln(w, r.Header)
		case "/router":
			w.Header().Set("X-Lane-Decision", "FALLBACK_BASELINE; lane="+tag+"; reason=lane_absent")
		case "/stripped":
			w.Header().Set("X-Lane-Decision", "BASELINE; instance=orders-1")
		}
	}))
	defer srv.Close()
	d := newDesk(t, consultest.Embedded(t))
	if _, res := d.diagnose(); asked.Load() != 0 {
		t.Errorf("asked without --probe: %+v", res.Findings)
	}
	for path, want := range map[string]doctor.Level{"/echo": doctor.Well, "/router": doctor.Well, "/stripped": doctor.Wrong, "/else": doctor.Note} {
		asked.Store(0)
		code, res := d.diagnose("--probe", srv.URL+path)
		if !res.says("header", want, srv.URL+path) || (code == exitFailed) != (want == doctor.Wrong) || asked.Load() != 1 {
			t.Errorf("%s: exit code %d, asked %d times: %+v", path, code, asked.Load(), res.find("header"))
		}
	}
	if code, res := d.diagnose("--probe", "http://127.0.0.1:1/"); code != exitFailed || !res.says("header", doctor.Wrong, "does not answer") {
		t.Errorf("%d: %+v", code, res.find("header"))
	}
}

func TestDoctorAtATerminal(t *testing.T) {
	d := newDesk(t, consultest.Embedded(t))
	for _, width := range []int{80, 140} {
		s, _, out, _ := iostreams.Test()
		s.IsStdoutTTY, s.Width = true, width
		if code := d.factory(s).run(t.Context(), []string{"doctor", "-s", "orders=1"}); code != exitOK {
			t.Errorf("exit code %d:\n%s", code, out)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if n := len([]rune(lines.Text())); n > width {
				t.Errorf("%d columns on %d: %s", n, width, lines.Text())
			}
		}
	}
}

// A finding may hold what somebody else has registered.
func TestFindingsArePrintable(t *testing.T) {
	for _, tty := range []bool{true, false} {
		s, _, out, _ := iostreams.Test()
		s.IsStdoutTTY = tty
		if err := printer.PrintFindings(s, []doctor.Finding{{Check: "consumers", Level: doctor.Note, What: "tag \x1b[2J", Where: "a\tb"}}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "\x1b") || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%q", out)
		}
	}
}

func TestPolicyUsage(t *testing.T) {
	for args, want := range map[string]int{
		"--policy": exitOK, "--policy=relayed": exitOK, "--policy=relay": exitOK, "--policy=gateway": exitOK, "--policy=sidecar -s orders": exitOK,
		"--policy --json": exitOK, "--policy --lane dev-alice -s orders --mode auto": exitOK,
		"--policy=nobody": exitUsage, "--policy -s orders": exitUsage, "--policy --lane dev-alice -s orders --mode x": exitUsage,
		"--policy --lane Dev_A -s orders": exitUsage, "--policy --lane dev-alice -s Orders": exitUsage, "--mode shared": exitUsage,
	} {
		code, out, errOut := offline(t, append([]string{"doctor"}, strings.Fields(args)...)...)
		if code != want || (want == exitOK) != (out != "") {
			t.Errorf("%s: %d\n%s%s", args, code, out, errOut)
		}
	}
	_, both, _ := offline(t, "doctor", "--policy", "--lane", "dev-alice", "-s", "orders", "--mode", "auto")
	for _, rule := range []string{`service "orders" { policy = "write" }`, `service "lane-dev-alice-orders" { policy = "write" }`} {
		if !strings.Contains(both, rule) {
			t.Errorf("auto lacks %s:\n%s", rule, both)
		}
	}
	if _, one, _ := offline(t, "doctor", "--policy", "--lane", "dev-alice", "-s", "orders", "--mode", "isolated"); strings.Contains(one, `service "orders"`) {
		t.Errorf("isolated is too much:\n%s", one)
	}
}
