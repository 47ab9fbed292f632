//go:build linux

package main

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// peer is a proxy that a developer would use instead. Each sets the tag as lane
// does, keeps its connections as far as it can, runs one worker, and logs nothing.
type peer struct {
	name    string
	forward bool // asked for whole URLs; else it is a reverse proxy of the origin
	file    string
	config  string // PORT, ORIGIN, WORK and TAG are filled in
	args    []string
	version []string
}

var peers = []peer{
	{
		name: "nginx", file: "nginx.conf",
		args: []string{"nginx", "-p", "WORK", "-c", "WORK/nginx.conf"}, version: []string{"nginx", "-v"},
		config: `daemon off; master_process off; pid WORK/nginx.pid; error_log WORK/nginx.err crit;
events { worker_connections 1024; }
http {
  access_log off; client_body_temp_path WORK/nginx.body; proxy_temp_path WORK/nginx.tmp;
  fastcgi_temp_path WORK/nginx.f; uwsgi_temp_path WORK/nginx.u; scgi_temp_path WORK/nginx.s;
  keepalive_requests 100000000;
  upstream origin { server ORIGIN; keepalive 256; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:PORT;
    location / {
      proxy_pass http://origin; proxy_http_version 1.1; proxy_max_temp_file_size 0;
      proxy_set_header Connection ""; proxy_set_header Host $host; proxy_set_header x-lane-tag TAG;
    }
  }
}
`,
	},
	{
		name: "haproxy", file: "haproxy.cfg",
		args: []string{"haproxy", "-db", "-f", "WORK/haproxy.cfg"}, version: []string{"haproxy", "-v"},
		config: `global
  nbthread 1
  maxconn 1024
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend in
  bind 127.0.0.1:PORT
  http-request set-header x-lane-tag TAG
  default_backend out
backend out
  server origin ORIGIN pool-max-conn 256
`,
	},
	{
		name: "squid", forward: true, file: "squid.conf",
		args: []string{"squid", "-N", "-f", "WORK/squid.conf"}, version: []string{"squid", "-v"},
		config: `http_port 127.0.0.1:PORT
http_access allow all
cache deny all
access_log none
cache_log WORK/squid/cache.log
cache_store_log none
pid_filename none
netdb_filename none
coredump_dir WORK/squid
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname bench
max_filedescriptors 4096
request_header_add x-lane-tag "TAG" all
`,
	},
	{
		name: "tinyproxy", forward: true, file: "tinyproxy.conf",
		args: []string{"tinyproxy", "-d", "-c", "WORK/tinyproxy.conf"}, version: []string{"tinyproxy", "-v"},
		config: `Port PORT
Listen 127.0.0.1
Timeout 60
MaxClients 256
LogFile "WORK/tinyproxy.err"
LogLevel Critical
AddHeader "x-lane-tag" "TAG"
`,
	},
	{
		name: "mitmdump", forward: true,
		args: []string{"mitmdump", "-q", "--listen-host", "127.0.0.1", "-p", "PORT", "--set", "confdir=WORK/mitm",
			"--modify-headers", "/~q/x-lane-tag/TAG"},
		version: []string{"mitmdump", "--version"},
	},
}

// startPeer configures a peer and starts it.
func (s *stage) startPeer(p peer, of kind) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	fill := strings.NewReplacer("PORT", port, "ORIGIN", s.origin, "WORK", s.work, "TAG", tag, "SELF", p.name)
	if p.file != "" {
		if err := os.WriteFile(filepath.Join(s.work, p.file), []byte(fill.Replace(p.config)), 0o644); err != nil {
			return err
		}
	}
	if err := s.home(p.name); err != nil {
		return err
	}
	args := make([]string, len(p.args))
	for i, a := range p.args {
		args[i] = fill.Replace(a)
	}
	proc, err := s.spawn(proxyCPU, p.name, nil, args...)
	if err != nil {
		return err
	}
	t := &target{name: p.name, addr: "127.0.0.1:" + port, host: s.origin, pids: []int{proc.cmd.Process.Pid}, versionArgs: p.version}
	t.send = sentTo(of)
	if strings.Contains(p.config, "access_log WORK/SELF.access") {
		t.log = filepath.Join(s.work, p.name+".access")
	}
	if p.forward {
		t.through = "http://" + s.origin
	}
	s.targets = append(s.targets, t)
	return s.until(proc, "listening", func() bool { return listens(t.addr) })
}

// home is a peer's own directory. Squid gives root up for a user of its own, and
// ends if that one cannot write its log.
func (s *stage) home(name string) error {
	dir := filepath.Join(s.work, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	owner, err := user.Lookup("proxy")
	if name != "squid" || os.Getuid() != 0 || err != nil {
		return nil
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(owner.Gid)
	if err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}
