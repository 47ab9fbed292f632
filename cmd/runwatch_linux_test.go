package cmd

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// bypassStory has a registry, a session and three commands in a network of their own,
// where 10.9.9.9 is somebody else's address: one command calls past the proxy, one by
// it, one not at all. All that they leave running is shown.
const bypassStory = `
set -eu
ip link set lo up
ip addr add 10.9.9.9/32 dev lo
lane registry --listen 10.9.9.9:8500 >registry.out 2>&1 &
registry=$!
export CONSUL_HTTP_ADDR=10.9.9.9:8500
for i in $(seq 200); do (exec 5<>/dev/tcp/10.9.9.9/8500) 2>/dev/null && break; sleep 0.05; done
lane up dev-alice -d >up.out 2>&1
proxy=$(lane env | sed -n 's|^.*LANE_PROXY=.*http://\([0-9.:]*\).*$|\1|p')
export proxy
# The registry closes a connection that asks nothing after 10 s.
past='sleep 6; exec 5<>/dev/tcp/10.9.9.9/8500; read -r -t 8 _ <hold || true; exit 7'
by='sleep 6; exec 6<>/dev/tcp/${proxy%:*}/${proxy#*:}; '${past#sleep 6; }
none='read -r -t 14 _ <hold || true; exit 7'
mkfifo hold
exec 9<>hold
export MARK_BYPASS=1
code() { set +e; lane run -- bash -c "$2" >"$1.out" 2>"$1.err"; echo $? >"$1.code"; }
code past "$past" & a=$!
code by "$by" & b=$!
code none "$none" & c=$!
wait $a $b $c
for n in past by none; do echo "== $n $(cat $n.code)"; cat $n.err; done
echo "== left"
for i in $(seq 100); do
  left=$(grep -slz '^MARK_BYPASS=1' /proc/[0-9]*/environ | while read -r f; do tr '\0' ' ' <"${f%environ}cmdline" 2>/dev/null | grep bypass || true; done)
  [ -z "$left" ] && break
  sleep 0.05
done
echo "$left"
lane down dev-alice >/dev/null 2>&1
kill $registry
`

func TestACommandThatBypassesTheProxyIsToldByRun(t *testing.T) {
	for _, tool := range []string{"ip", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: scripts/tools installs it", err)
		}
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "lane") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := storyContext()
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", bypassStory)
	c.Dir = dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANE_STATE_DIR=" + filepath.Join(dir, "s"), "LANE_RUNTIME_DIR=" + filepath.Join(dir, "r"),
		"LANE_OWNER=alice", "LANE_PROXY_LISTEN=127.0.0.1:0", atOnce}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Start(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		u, _ := user.Current()
		t.Fatalf("%v may not make a network of its own: %v; run it as root, or allow user namespaces (sysctl user.max_user_namespaces)", u, err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &said)
	}
	parts := strings.Split(out.String(), "== ")
	if len(parts) != 5 {
		t.Fatalf("%s%s", &out, &said)
	}
	if got := parts[1]; !strings.HasPrefix(got, "past 7\nlane: the command has, or had, connections to 10.9.9.9:8500, and none through") || strings.Count(got, "\n") != 2 {
		t.Errorf("one that bypasses it: %q", got)
	}
	for i, want := range []string{"by 7\n", "none 7\n", "left\n\n"} {
		if got := parts[2+i]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
