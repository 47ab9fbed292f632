//go:build unix

package cmd

import (
	"os"
	"strconv"
	"time"

	"lane/pkg/ca"

	"github.com/rogpeppe/go-internal/testscript"
)

// servetls NAME HOST CA starts an HTTPS server whose certificate is for a host, by
// a CA of the story's own whose certificate is then the file CA.pem.
func cmdServeTLS(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 3, "servetls NAME HOST CA")
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	dir := ts.MkAbs("cas/" + args[2])
	a, err := ca.Load(dir, time.Now())
	if err != nil {
		a, err = ca.Init(dir, ca.Options{Owner: args[2], Now: time.Now()})
	}
	ts.Check(err)
	issuer, err := ca.NewIssuer(a, time.Now)
	ts.Check(err)
	pem, err := os.ReadFile(a.Path)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]+".pem"), pem, 0o600))
	conf := issuer.Config(args[1])
	s := &server{name: args[0], tls: conf}
	w.servers[args[0]] = s
	ts.Check(s.listen())
	ts.Setenv(args[0]+"_port", strconv.Itoa(s.port))
}
