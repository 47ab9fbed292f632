package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lane/pkg/ca"
	"lane/pkg/config"

	"github.com/spf13/cobra"
)

func newCACmd(f *factory) *cobra.Command {
	c := &cobra.Command{
		Use:   "ca",
		Short: "Make and show the local CA with which HTTPS is opened and colored",
		Long: `Make and show the certificate authority of your own, with which the coloring proxy
opens the HTTPS of the hosts under 'mitm' in lane.yaml, so that it can be colored.
Its key stays on this machine, readable by you alone. Programs that 'lane run',
'lane env', 'lane curl' or 'lane up -- COMMAND' start are led to trust it; nothing
else is, until you say so: see 'lane ca trust-help'.`,
		Example: `  lane ca init --host '*.test.example' --host order-service
  lane ca path
  lane ca trust-help`,
		Args: subcommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newCAInitCmd(f), newCAPathCmd(f), newCATrustCmd(f))
	return c
}

type caInitOptions struct {
	hosts []string
	json  bool
}

func newCAInitCmd(f *factory) *cobra.Command {
	o := &caInitOptions{}
	c := &cobra.Command{
		Use:   "init",
		Short: "Make the CA; one that is there is never replaced",
		Long: `Make the CA, valid for two years. With --host, repeated, or else with what 'mitm' in
lane.yaml lists, it can sign for these hosts alone, and for what is below them:
whoever trusts it then is safe for all others, even if its key gets out. It never
signs for addresses.`,
		Example: `  lane ca init
  lane ca init --host '*.test.example' --host order-service`,
		Args: takes(),
		RunE: func(*cobra.Command, []string) error {
			return runCAInit(f, o)
		},
	}
	addFlags(c, &o.hosts, "host", aHost, "host, service or *.domain that it may sign for")
	jsonFlag(c, &o.json)
	return c
}

// placeError says that there is no place for a file.
type placeError struct{ err error }

func (e *placeError) Error() string { return e.err.Error() }
func (e *placeError) Unwrap() error { return e.err }

func runCAInit(f *factory, o *caInitOptions) error {
	dir, err := config.StateDir(f.system())
	if err != nil {
		return err
	}
	s, err := f.settings(given{})
	if err != nil {
		return err
	}
	if len(o.hosts) == 0 {
		o.hosts = s.Mitm
	}
	a, err := ca.Init(dir, ca.Options{Owner: s.Owner, Hosts: o.hosts, Now: f.now()})
	var exists *ca.ExistsError
	var name *ca.HostError
	switch {
	case errors.As(err, &exists):
		return usagef("it is good for its two years; to make a new one, take it out of what trusts it, and:  rm -r "+shellQuote(exists.Path), "%v", err)
	case errors.As(err, &name): // of mitm, else it was a flag's
		return usagef("--host says for which hosts alone it may sign", "mitm: %v", err)
	case errors.Is(err, fs.ErrPermission):
		return &placeError{err}
	case err != nil:
		return err
	}
	if o.json {
		return f.printJSON(newCARecord(a))
	}
	if _, err := fmt.Fprintln(f.io.Out, a.Path); err != nil {
		return err
	}
	what := "it can sign for these alone, and for what is below them: " + strings.Join(a.Hosts(), ", ")
	if len(a.Hosts()) == 0 {
		what = "it can sign for any host: whoever trusts it depends on its key; --host makes one that cannot"
	}
	next := "list hosts under mitm in lane.yaml, and lane up"
	listed := func(host string) bool { return slices.Contains(s.Mitm, host) }
	if len(s.Mitm) > 0 && !slices.ContainsFunc(o.hosts, func(h string) bool { return !listed(h) }) {
		next = "lane up" // which opens what is listed already
	}
	_, err = fmt.Fprintf(f.io.Err, "%s\nnext: %s; programs outside of lane run: lane ca trust-help\n", what, next)
	return err
}

func newCAPathCmd(f *factory) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:     "path",
		Short:   "Print the path of the CA's certificate",
		Example: `  curl --cacert "$(lane ca path)" --proxy http://127.0.0.1:7474 https://order-service/`,
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			a, err := f.authority()
			if err != nil {
				return err
			}
			if json {
				return f.printJSON(newCARecord(a))
			}
			_, err = fmt.Fprintln(f.io.Out, a.Path)
			return err
		},
	}
	jsonFlag(c, &json)
	return c
}

// caRecord is the JSON form of a CA.
type caRecord struct {
	Schema   string    `json:"schema"`
	Path     string    `json:"path"`
	Hosts    []string  `json:"hosts"` // domains that it is bound to; none: any
	NotAfter time.Time `json:"not_after"`
}

func newCARecord(a *ca.Authority) caRecord {
	hosts := a.Hosts()
	if hosts == nil {
		hosts = []string{}
	}
	return caRecord{Schema: "lane.ca/v1", Path: a.Path, Hosts: hosts, NotAfter: a.Cert.NotAfter}
}

func newCATrustCmd(f *factory) *cobra.Command {
	return &cobra.Command{
		Use:   "trust-help",
		Short: "Print what to run so that the system and programs trust the CA",
		Long: `Print what to run so that a system, a browser or a program trusts the CA, and how to
take that back. It runs nothing. What 'lane run' and 'lane env' start needs none
of it.`,
		Example: `  lane ca trust-help | less`,
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			a, err := f.authority()
			if err != nil {
				return err
			}
			_, err = f.io.Out.Write([]byte(trustHelp(a.Path)))
			return err
		},
	}
}

// authority is this user's CA.
func (f *factory) authority() (*ca.Authority, error) {
	dir, err := config.StateDir(f.system())
	if err != nil {
		return nil, err
	}
	a, err := ca.Load(dir, f.now())
	if errors.Is(err, ca.ErrNone) {
		return nil, &noDataError{msg: err.Error(), hint: "make one:  lane ca init"}
	}
	return a, err
}

// trustHelp is what to run, with the certificate's path in it.
func trustHelp(path string) string {
	return strings.NewReplacer("{sh}", shellQuote(path), "{win}", `"`+path+`"`, "{dir}", shellQuote(filepath.Dir(path))).Replace(trustText)
}

const trustText = `You may not need any of this. Programs that lane starts trust the CA already, as long
as the session opens something (mitm in lane.yaml):
  lane run -- COMMAND        lane up LANE -- COMMAND        eval "$(lane env)"
set SSL_CERT_FILE, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE (the roots that were in use
and the CA), NODE_EXTRA_CA_CERTS, and a trust store in JAVA_TOOL_OPTIONS if there is a
keytool. What reads none of them, browsers above all, and Go outside of Linux, needs
what follows. Nothing here is run for you; trust it on your own machine only.

Debian, Ubuntu
  sudo cp {sh} /usr/local/share/ca-certificates/lane.crt && sudo update-ca-certificates
  undo: sudo rm /usr/local/share/ca-certificates/lane.crt && sudo update-ca-certificates --fresh

Fedora, RHEL
  sudo cp {sh} /etc/pki/ca-trust/source/anchors/lane.pem && sudo update-ca-trust
  undo: sudo rm /etc/pki/ca-trust/source/anchors/lane.pem && sudo update-ca-trust

Arch
  sudo trust anchor --store {sh}
  undo: sudo trust anchor --remove {sh}

Alpine
  sudo cp {sh} /usr/local/share/ca-certificates/lane.crt && sudo update-ca-certificates
  undo: sudo rm /usr/local/share/ca-certificates/lane.crt && sudo update-ca-certificates

macOS
  security add-trusted-cert -r trustRoot -p ssl -k ~/Library/Keychains/login.keychain-db {sh}
  undo: security remove-trusted-cert {sh}

Windows
  certutil -user -addstore Root {win}
  undo: certmgr.msc, Trusted Root Certification Authorities, delete the lane CA

Firefox (Settings, Privacy & Security, View Certificates, Authorities, Import), or
  certutil -A -n lane -t C,, -i {sh} -d sql:PROFILE-DIRECTORY
  undo: certutil -D -n lane -d sql:PROFILE-DIRECTORY

Chrome on Linux
  certutil -A -n lane -t C,, -i {sh} -d sql:"$HOME"/.pki/nssdb
  undo: certutil -D -n lane -d sql:"$HOME"/.pki/nssdb

Java (a store of your own, as a copy of the JDK's; its password is changeit)
  cp "$JAVA_HOME/lib/security/cacerts" lane-store
  keytool -importcert -noprompt -alias lane-ca -file {sh} -keystore lane-store -storepass changeit
  java -Djavax.net.ssl.trustStore=lane-store ...

Node
  export NODE_EXTRA_CA_CERTS={sh}

Python and curl read one file in place of the system's roots, so make one of both
  cat /etc/ssl/certs/ca-certificates.crt {sh} > lane-bundle.pem
  export REQUESTS_CA_BUNDLE=$PWD/lane-bundle.pem SSL_CERT_FILE=$PWD/lane-bundle.pem
  export CURL_CA_BUNDLE=$PWD/lane-bundle.pem
  for one call: curl --cacert {sh} https://HOST/

GNU Wget reads no variable where it is built with GnuTLS, as in Debian
  wget --ca-certificate={sh} https://HOST/

The key is in {dir}, readable by you alone. If it gets out: undo all of the above, then
  rm -r {dir} && lane ca init
`
