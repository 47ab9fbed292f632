//go:build unix

package cmd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// storyCommands are the commands of a story beyond testscript's own.
var storyCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"serve":       cmdServe,
	"servetls":    cmdServeTLS,
	"closeport":   cmdClosePort,
	"calls":       cmdCalls,
	"noheader":    cmdNoHeader,
	"register":    cmdRegister,
	"remember":    cmdRemember,
	"unchanged":   cmdUnchanged,
	"within":      cmdWithin,
	"eventually":  cmdEventually,
	"exits":       cmdExits,
	"setfrom":     cmdSetFrom,
	"letgo":       cmdLetGo,
	"holdclaim":   cmdHoldClaim,
	"interrupts":  cmdInterrupts,
	"killsession": cmdKillSession,

	"killguardian": cmdKillGuardian,

	"app":          cmdApp,
	"page":         cmdPage,
	"clientcerts":  cmdClientCerts,
	"freeport":     cmdFreePort,
	"registerport": cmdRegisterPort,
	"listening":    cmdListening,
	"lead":         cmdLead,
	"connectproxy": cmdConnectProxy,
	"used":         cmdUsed,
	"halfopen":     cmdHalfOpen,
	"memory":       cmdMemory,

	"terminal": cmdTerminal,
	"press":    cmdPress,
	"resize":   cmdResize,
	"storm":    cmdStorm,
	"shows":    cmdShows,
	"gone":     cmdGone,

	"closewindow": cmdCloseWindow,
}

func positive(ts *testscript.TestScript, neg bool, args []string, n int, usage string) {
	if neg || len(args) < n {
		ts.Fatalf("usage: %s", usage)
	}
}

// serve NAME starts (again) an HTTP server; $NAME_port is its port.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "serve NAME")
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.servers[args[0]]
	if s == nil {
		s = &server{name: args[0], letGo: make(chan struct{})}
		w.servers[args[0]] = s
	}
	ts.Check(s.listen())
	ts.Setenv(args[0]+"_port", strconv.Itoa(s.port))
}

// letgo NAME answers the requests that wait, once.
func cmdLetGo(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "letgo NAME")
	close(worldOf(ts).server(ts, args[0]).letGo)
}

// closeport NAME closes a server's port.
func cmdClosePort(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "closeport NAME")
	worldOf(ts).server(ts, args[0]).close()
}

func (w *world) server(ts *testscript.TestScript, name string) *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.servers[name]
	if s == nil {
		ts.Fatalf("no server %q", name)
	}
	return s
}

// calls NAME N checks how many requests a server has got so far.
func cmdCalls(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "calls NAME N")
	s := worldOf(ts).server(ts, args[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strconv.Itoa(s.calls); got != args[1] {
		ts.Fatalf("%s was called %s times, not %s; last: %v", args[0], got, args[1], s.heads)
	}
}

// noheader NAME checks that no request to a server ever had anything of a lane.
func cmdNoHeader(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "noheader NAME")
	s := worldOf(ts).server(ts, args[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == 0 {
		ts.Fatalf("%s was never called", args[0])
	}
	for _, h := range s.heads {
		for k, v := range h {
			if strings.Contains(strings.ToLower(k), "lane") || strings.Contains(strings.Join(v, ","), "lane=") {
				ts.Fatalf("%s got %s: %v", args[0], k, v)
			}
		}
	}
}

// register SERVICE NAME [key=value...] registers a server as somebody else's
// healthy instance of a service.
func cmdRegister(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "register SERVICE NAME [key=value...]")
	w := worldOf(ts)
	meta := map[string]string{}
	for _, a := range args[2:] {
		k, v, _ := strings.Cut(a, "=")
		meta[k] = v
	}
	ts.Check(w.call("PUT", "/v1/agent/service/register", map[string]any{
		"ID": args[1], "Name": args[0], "Address": "127.0.0.1", "Port": w.server(ts, args[1]).port, "Meta": meta}, nil))
}

// remember NAME keeps what the registry holds now.
func cmdRemember(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 1, "remember NAME")
	w := worldOf(ts)
	p, err := w.picture()
	ts.Check(err)
	w.saved[args[0]] = p
}

// unchanged NAME checks that the registry holds what it held then; with ! that
// it does not.
func cmdUnchanged(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: unchanged NAME")
	}
	w := worldOf(ts)
	p, err := w.picture()
	ts.Check(err)
	if (p == w.saved[args[0]]) == neg {
		ts.Fatalf("registry then:\n%s\nnow:\n%s", w.saved[args[0]], p)
	}
}

// eventually PATTERN PROGRAM [ARGS...] runs a program until its output matches.
func cmdEventually(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "eventually PATTERN PROGRAM [ARGS...]")
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ctx, cancel := storyContext()
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		out := runIn(ts, args[1:])
		if re.MatchString(out) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("%v never matched %q; last:\n%s", args[1:], args[0], out)
		}
	}
}

// runIn runs a program in the story's directory and environment.
func runIn(ts *testscript.TestScript, args []string) string {
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	c := exec.Command(path, args[1:]...)
	c.Dir = ts.MkAbs(".")
	c.Env = environOf(ts)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

// storyVars are the variables that a program of a story needs.
var storyVars = []string{"PATH", "HOME", "PWD", "WORK", "CONSUL_HTTP_ADDR", "LANE_RUNTIME_DIR", "LANE_STATE_DIR", "XDG_CONFIG_HOME", "LANE_OWNER", "LANE_PROXY_LISTEN", "LANE_TAG", "LANE_PROXY", "LANE_RELAY", "LANE_RELAY_TOKEN", "LANE_RELAY_TOKEN_FILE", "LANE_RELAY_CA_FILE", "LANE_RELAY_CERT_FILE", "LANE_RELAY_KEY_FILE", "LANE_MITM", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "TMPDIR", "GORACE"}

func environOf(ts *testscript.TestScript) []string {
	var env []string
	for _, k := range storyVars {
		if v := ts.Getenv(k); v != "" {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// setfrom VAR PATTERN sets a variable to the first group of a pattern in the
// last standard output.
func cmdSetFrom(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "setfrom VAR PATTERN")
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	m := re.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) < 2 {
		ts.Fatalf("%q has no group in:\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m[1])
}

// holdclaim LANE SERVICE OWNER claims a service as somebody on another machine.
func cmdHoldClaim(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 3, "holdclaim LANE SERVICE OWNER")
	w := worldOf(ts)
	var session struct{ ID string }
	ts.Check(w.call("PUT", "/v1/session/create", map[string]any{"Name": "theirs", "NodeChecks": []string{}, "TTL": "10m", "Behavior": "delete", "LockDelay": "1ms"}, &session))
	record := map[string]string{"lane": args[0], "service": args[1], "owner": args[2], "host": "desk-7", "install": "other", "session": session.ID, "mode": "shared", "registered": args[1], "since": "2026-01-02T03:04:05Z"}
	ts.Check(w.call("PUT", "/v1/kv/lane/declared/"+args[0]+"/"+args[1]+"?acquire="+session.ID, record, nil))
}

// exits CODE PROGRAM [ARGS...] checks a program's exit code; what it printed,
// both streams, is then the file "output".
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "exits CODE PROGRAM [ARGS...]")
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	ctx, cancel := storyContext()
	defer cancel()
	c := exec.CommandContext(ctx, path, args[2:]...)
	c.Dir, c.Env = ts.MkAbs("."), environOf(ts)
	out, _ := c.CombinedOutput() // the exit code says it
	ts.Check(os.WriteFile(ts.MkAbs("output"), out, 0o600))
	if got := strconv.Itoa(c.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit code %s, want %s:\n%s", got, args[0], out)
	}
}
