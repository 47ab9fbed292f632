package cmd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"lane/pkg/ca"
	"lane/pkg/childenv"
	"lane/pkg/config"
	"lane/pkg/control"
	"lane/pkg/session"
)

// opening sets what a session needs to open TLS. What cannot work is told here,
// before anything is registered.
func (f *factory) opening(o *session.Options, s *config.Settings) error {
	if s.MitmCAFile != "" {
		pem, err := os.ReadFile(s.MitmCAFile)
		if err != nil {
			return usagef("it is to verify the servers whose TLS is opened", "mitm_ca_file (%s): %v", s.Source("mitm_ca_file"), err)
		}
		o.Roots = x509.NewCertPool()
		if !o.Roots.AppendCertsFromPEM(pem) {
			return usagef("name a file with certificates in PEM", "mitm_ca_file (%s): %s holds no certificate in PEM", s.Source("mitm_ca_file"), s.MitmCAFile)
		}
	}
	if len(s.Mitm) == 0 {
		return nil
	}
	a, err := f.authority()
	var none *noDataError
	if errors.As(err, &none) {
		return &noDataError{msg: fmt.Sprintf("mitm (%s) wants TLS opened, and %s", s.Source("mitm"), none.msg), hint: none.hint}
	}
	if err != nil {
		return err
	}
	for _, h := range s.Mitm {
		if !a.Permits(h) {
			return usagef("make one that may sign for it too: rm -r "+shellQuote(filepath.Dir(a.Path))+" && lane ca init"+hostFlags(s.Mitm),
				"mitm (%s): %s: the CA was made for %s only", s.Source("mitm"), h, strings.Join(a.Hosts(), ", "))
		}
	}
	o.Authority = a
	return nil
}

func hostFlags(hosts []string) (flags string) {
	for _, h := range hosts {
		flags += " --host " + shellQuote(h)
	}
	return flags
}

// plainSession is what a program is told of a session, trust apart.
func plainSession(st *control.Status) childenv.Session {
	return childenv.Session{Proxy: st.Proxy, Lane: string(st.Lane), Direct: []string{st.Registry.Address},
		Windows: runtime.GOOS == "windows"}
}

// childSession is what a program is told of a session. Where the session opens TLS
// it is led to trust the CA for that; what cannot be done for it is said.
func (f *factory) childSession(st *control.Status) childenv.Session {
	s := plainSession(st)
	if st.CA == "" {
		return s
	}
	a, err := f.authorityOf(st)
	if err != nil {
		f.warnTrust(err)
		return s
	}
	s.Trust = f.trust(a, "")
	if childenv.OwnJavaStore(f.environ, s.Windows, filepath.Dir(a.Path)) {
		f.warnTrust(errors.New("JAVA_TOOL_OPTIONS names a trust store of your own: it stays as it is (`lane ca trust-help` adds the CA to one)"))
		return s
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	store, err := a.JavaStore(ctx, f.getenv("JAVA_HOME"))
	switch {
	case errors.Is(err, ca.ErrNoKeytool): // no JVM, nothing to tell it
	case err != nil:
		f.warnTrust(fmt.Errorf("no trust store for Java: %w", err))
	default:
		s.JavaStore, s.JavaPassword = store, ca.JavaPassword
	}
	return s
}

// storeLimit bounds the making of a trust store: two starts of a JVM, once for
// each JVM.
const storeLimit = 30 * time.Second

func (f *factory) warnTrust(err error) {
	fmt.Fprintf(f.io.Err, "lane: %v\n", err)
}

// authorityOf is the CA of a session, which is this user's own.
func (f *factory) authorityOf(st *control.Status) (*ca.Authority, error) {
	a, err := f.authority()
	if err != nil {
		return nil, fmt.Errorf("programs will not trust the TLS that the session opens: %w", err)
	}
	switch {
	case a.Path != st.CA:
		return nil, fmt.Errorf("programs will not trust the TLS that the session opens: its CA is %s, not %s", st.CA, a.Path)
	case a.Made().After(st.Started):
		return nil, errors.New("programs will not trust the TLS that the session opens: the CA is newer than the session; end it and start it again")
	}
	return a, nil
}

// trust are the variables, or one of them, by which programs trust an authority
// beside what they trust now.
func (f *factory) trust(a *ca.Authority, only string) (vars []childenv.Var) {
	for _, v := range childenv.RootsOf(f.environ, runtime.GOOS == "windows") {
		if only != "" && v.Name != only {
			continue
		}
		base := v.File
		if base == "" && v.Extra {
			vars = append(vars, childenv.Var{Name: v.Name, Value: a.Path})
			continue
		}
		if base == "" {
			if base = ca.SystemRoots(); base == "" {
				f.warnTrust(fmt.Errorf("%s is not set: this system has no file of its roots to add the CA to", v.Name))
				continue
			}
		}
		path, err := a.Bundle(base)
		if err != nil {
			f.warnTrust(fmt.Errorf("%s stays as it is: %w", v.Name, err))
			continue
		}
		vars = append(vars, childenv.Var{Name: v.Name, Value: path})
	}
	return vars
}

// curlEnv is the environment of a curl that trusts the session's CA.
func (f *factory) curlEnv(st *control.Status) []string {
	if st.CA == "" {
		return f.environ
	}
	a, err := f.authorityOf(st)
	if err != nil {
		f.warnTrust(err)
		return f.environ
	}
	env := f.environ
	for _, v := range f.trust(a, childenv.CurlVar) {
		// The first of two holds for C programs.
		env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, v.Name+"=") })
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

// sessionRoots are the roots by which a client of ours verifies what the session
// opens; nil, the system's, if it opens nothing.
func (f *factory) sessionRoots(st *control.Status) (*x509.CertPool, error) {
	if st.CA == "" {
		return nil, nil
	}
	a, err := f.authorityOf(st)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.Cert)
	return roots, nil
}

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
