//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// users is how many rules a request's user is compared with; the last of them is
// the one that sends the requests.
const users = 17

var (
	// buyer is what the gateway colors by, and what nginx's map looks at.
	buyer = [2]string{"x-user-id", "u-" + strconv.Itoa(users)}
	// trace is another one for each request, as it comes from many users: a
	// sidecar's map is full before long.
	trace = [2]string{"traceparent", "00-4bf92f3577b34da6RUNRUNa0" + mark + "-00f067aa0ba902b7-01"}
)

// sentTo are the headers that the targets of a kind get, lane's own apart.
func sentTo(of kind) [][2]string {
	if of == kindGateway {
		return [][2]string{buyer, trace}
	}
	return nil
}

// laneOf is the lane of a user.
func laneOf(n int) string {
	if n == users {
		return tag
	}
	return "lane-" + strconv.Itoa(n)
}

// ruleDocument is twenty rules: one for each user, and three of other kinds that
// do not hold.
func ruleDocument() string {
	var b strings.Builder
	b.WriteString("entry: orders\nidentity: {headers: [X-User-Id], trust: [127.0.0.0/8]}\nrules:\n")
	for n := 1; n <= users; n++ {
		fmt.Fprintf(&b, "  - {id: user-%d, priority: %d, match: {header: {name: X-User-Id, exact: u-%d}}, lane: %s}\n", n, n, n, laneOf(n))
	}
	b.WriteString(`  - {id: team, priority: 18, match: {cookie: {name: user, regex: "dev[0-9]+"}}, lane: dev-team}
  - {id: api, priority: 19, match: {path: {prefix: /v2/orders}}, lane: orders-v2}
  - {id: percent, priority: 20, percent: 5, key: {header: X-Tenant-Id}, lane: checkout}
`)
	return b.String()
}

// entry is a gateway or a sidecar.
type entry struct {
	name  string
	admin string
	load  *load
}

// startEntries starts a registry, a gateway that colors by twenty rules, and a
// sidecar, each with its access log and its metrics.
func (s *stage) startEntries(b build, o *options) error {
	gateway, sidecar := "gateway"+strings.TrimPrefix(b.name, "lane"), "sidecar"+strings.TrimPrefix(b.name, "lane")
	if !o.wants(gateway) && !o.wants(sidecar) {
		return nil
	}
	dir := filepath.Join(s.work, b.name+".d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	env, err := s.startRegistry(b, o, dir)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(ruleDocument()), 0o600); err != nil {
		return err
	}
	if err := s.startEntry(o, gateway, sentTo(kindGateway), env,
		b.path, "gateway", "--listen", "127.0.0.1:0", "--route", "orders", "--rules", file); err != nil {
		return err
	}
	return s.startEntry(o, sidecar, [][2]string{tagged, trace}, env,
		b.path, "sidecar", "--listen", "127.0.0.1:0", "--outbound", "127.0.0.1:0", "--service", "reviews", "--app", s.origin)
}

// startEntry starts one of them, and waits for what it prints when it is up: its
// address, and that of its admin port.
func (s *stage) startEntry(o *options, name string, send [][2]string, env []string, args ...string) error {
	if !o.wants(name) {
		return nil
	}
	t := &target{name: name, host: "shop.test", send: send, log: filepath.Join(s.work, name+".access")}
	p, err := s.spawn(proxyCPU, name, env, append(args, "--access-log", t.log)...)
	if err != nil {
		return err
	}
	w := &entry{name: name}
	err = s.until(p, "a router that is up", func() bool {
		out, err := os.ReadFile(filepath.Join(s.work, name+".log"))
		if err != nil {
			return false
		}
		front, rest, _ := strings.Cut(string(out), "\n")
		_, t.addr, _ = strings.Cut(front, "http://")
		_, admin, ok := strings.Cut(rest, "admin at http://")
		w.admin, _, _ = strings.Cut(admin, "\n")
		return ok && strings.Contains(admin, "\n")
	})
	if err != nil {
		return err
	}
	w.load = &load{name: name, recorded: func() (int64, error) { return w.counter(s, "lane_requests_total") }}
	t.load, t.pids = w.load, []int{p.cmd.Process.Pid}
	s.loads, s.entries, s.targets = append(s.loads, w.load), append(s.entries, w), append(s.targets, t)
	return nil
}

// counter is the sum of a metric's series, as the admin port says it.
func (w *entry) counter(s *stage, name string) (sum int64, err error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://"+w.admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return total(resp.Body, name)
}

// total is the sum of a metric's series in the text that Prometheus reads.
func total(text io.Reader, name string) (sum int64, err error) {
	found := false
	for in := bufio.NewScanner(text); in.Scan(); {
		series, value, _ := strings.Cut(in.Text(), " ")
		if i := strings.LastIndexByte(in.Text(), ' '); strings.HasPrefix(series, name+"{") {
			value = in.Text()[i+1:] // a label may hold blanks
		} else if series != name {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", in.Text(), err)
		}
		sum, found = sum+int64(n), true
	}
	if !found {
		return 0, errors.New("no series of " + name)
	}
	return sum, nil
}

// lost says what the access log was too slow for: that costs no CPU.
func (w *entry) lost(s *stage) (string, error) {
	n, err := w.counter(s, "lane_access_log_lost_total")
	return fmt.Sprintf("The access log of %s lost %d of %d lines", w.name, n, w.load.sent), err
}

// matchers are nginx with the gateway's match: a map of the same header to the same
// lanes, an upstream for each, and the tag. One keeps an access log of nearly as much as
// lane's, written in blocks of 64 KiB as lane's is in batches; the other keeps none.
func matchers() []peer {
	var lanes, upstreams strings.Builder
	for n := 1; n <= users; n++ {
		fmt.Fprintf(&lanes, "    u-%d %s;\n", n, laneOf(n))
	}
	for n := range users + 1 {
		name := "baseline"
		if n > 0 {
			name = laneOf(n)
		}
		fmt.Fprintf(&upstreams, "  upstream to-%s { server ORIGIN; keepalive 256; keepalive_requests 100000000; }\n", name)
	}
	config := func(log string) string {
		return `daemon off; master_process off; pid WORK/SELF.pid; error_log WORK/SELF.err crit;
events { worker_connections 1024; }
http {
  log_format line escape=json '{"time":"$time_iso8601","front":"gateway","from":"$remote_addr:$remote_port","method":"$request_method","url":"$scheme://$host$request_uri","proto":"$server_protocol","status":$status,"req_bytes":$request_length,"res_bytes":$body_bytes_sent,"duration":$request_time,"service":"orders","lane":"$lane","tag":"$http_x_lane_tag","instance":"$upstream_addr","trace_id":"$http_traceparent"}';
  ` + log + ` client_body_temp_path WORK/SELF.body; proxy_temp_path WORK/SELF.tmp;
  fastcgi_temp_path WORK/SELF.f; uwsgi_temp_path WORK/SELF.u; scgi_temp_path WORK/SELF.s;
  keepalive_requests 100000000;
  map $http_x_user_id $lane {
    default baseline;
` + lanes.String() + `  }
` + upstreams.String() + `  server {
    listen 127.0.0.1:PORT;
    location / {
      proxy_pass http://to-$lane; proxy_http_version 1.1; proxy_max_temp_file_size 0;
      proxy_set_header Connection ""; proxy_set_header Host $host; proxy_set_header x-lane-tag $lane;
    }
  }
}
`
	}
	args := []string{"nginx", "-p", "WORK", "-c", "WORK/SELF.conf"}
	return []peer{
		{name: "nginx", file: "nginx.conf", args: args, version: []string{"nginx", "-v"}, config: config("access_log WORK/SELF.access line buffer=64k flush=1s;")},
		{name: "nginx-nolog", file: "nginx-nolog.conf", args: args, config: config("access_log off;")},
	}
}

// peersOf are the other proxies of a kind.
func peersOf(of kind) []peer {
	if of == kindGateway {
		return matchers()
	}
	return peers
}
