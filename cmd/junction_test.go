//go:build unix

package cmd

import (
	"io"
	"net"
	"strconv"
	"sync"

	"lane/pkg/consul/consultest"

	"github.com/rogpeppe/go-internal/testscript"
)

// junction is a port whose connections go to another one, as those of a load
// balancer do.
type junction struct {
	ln net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool
}

// lead NAME PORT has the connections to $NAME_port go to PORT from now on, and cuts
// those that there are.
func cmdLead(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "lead NAME PORT")
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.junctions[args[0]]
	if j == nil {
		ln, err := consultest.Listen()
		ts.Check(err)
		j = &junction{ln: ln, conns: map[net.Conn]bool{}}
		w.junctions[args[0]] = j
		j.wg.Go(j.run)
		ts.Setenv(args[0]+"_port", strconv.Itoa(ln.Addr().(*net.TCPAddr).Port))
	}
	j.lead("127.0.0.1:" + args[1])
}

func (j *junction) lead(to string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.to = to
	for c := range j.conns {
		_ = c.Close()
	}
}

func (j *junction) close() {
	_ = j.ln.Close()
	j.lead("")
	j.wg.Wait()
}

func (j *junction) run() {
	for {
		c, err := j.ln.Accept()
		if err != nil {
			return
		}
		j.wg.Go(func() { j.join(c) })
	}
}

func (j *junction) join(c net.Conn) {
	defer func() { _ = c.Close() }()
	j.mu.Lock()
	to := j.to
	j.mu.Unlock()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
	j.mu.Lock()
	if j.to != to {
		j.mu.Unlock()
		return
	}
	j.conns[c], j.conns[s] = true, true
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.conns, c)
		delete(j.conns, s)
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(s, c)
		_ = s.Close()
	}()
	_, _ = io.Copy(c, s)
	_ = c.Close()
	<-done
}
