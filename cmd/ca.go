package cmd

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"lane/pkg/ca"
	"lane/pkg/config"

	"github.com/spf13/cobra"
)

// newCACmd is not in the root yet: a CA is of use only when the proxy opens TLS.
func newCACmd(f *factory) *cobra.Command {
	c := &cobra.Command{
		Use:   "ca",
		Short: "Make and show the local CA with which HTTPS is opened",
		Long: `Make and show the certificate authority of your own, which signs for the hosts
whose HTTPS the coloring proxy opens. Its key stays on this machine, readable by
you alone. Nothing trusts it until you say so: see 'lane ca trust-help'.`,
	}
	c.AddCommand(newCAInitCmd(f), newCAPathCmd(f), newCATrustCmd(f))
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
	return c
}

func newCAInitCmd(f *factory) *cobra.Command {
	hosts := flagValues{word: "HOST"}
	c := &cobra.Command{
		Use:   "init",
		Short: "Make the CA; one that is there is never replaced",
		Long: `Make the CA, valid for two years. With --host, repeated, it can sign for these
hosts alone, and for what is below them: whoever trusts it then is safe for all
others, even if its key gets out. It never signs for addresses.`,
		Example: `  lane ca init --host '*.test.example'`,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runCAInit(f, hosts.all) },
	}
	c.Flags().Var(&hosts, "host", "host, or *.domain, that it may sign for; may be repeated")
	return c
}

func newCAPathCmd(f *factory) *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "Print the path of the CA's certificate",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := f.authority()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(f.io.Out, a.Path)
			return err
		},
	}
}

func newCATrustCmd(f *factory) *cobra.Command {
	return &cobra.Command{
		Use:   "trust-help",
		Short: "Print what to run so that the system and programs trust the CA",
		Args:  cobra.NoArgs,
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

func runCAInit(f *factory, hosts []string) error {
	dir, err := config.StateDir(f.system())
	if err != nil {
		return err
	}
	owner, _ := os.Hostname() // a name for people: anything will do
	if u, err := user.Current(); err == nil {
		owner = u.Username + "@" + owner
	}
	a, err := ca.Init(dir, ca.Options{Owner: owner, Hosts: hosts, Now: f.now()})
	var exists *ca.ExistsError
	if errors.As(err, &exists) {
		return usagef("to make a new one, take the old one out of what trusts it, and remove its directory", "%v", err)
	}
	if err != nil {
		return err
	}
	if len(hosts) == 0 {
		fmt.Fprintln(f.io.Err, "note: this CA may sign for any host; --host '*.test.example' makes one that cannot")
	}
	_, err = fmt.Fprintf(f.io.Out, "%s\n", a.Path)
	fmt.Fprintln(f.io.Err, "next: lane ca trust-help")
	return err
}

// authority is this user's CA.
func (f *factory) authority() (*ca.Authority, error) {
	dir, err := config.StateDir(f.system())
	if err != nil {
		return nil, err
	}
	a, err := ca.Load(dir, f.now())
	if errors.Is(err, ca.ErrNone) {
		return nil, &noDataError{msg: err.Error(), hint: "make one:  lane ca init --host '*.test.example'"}
	}
	return a, err
}

// trustHelp is what to run, with the certificate's path in it.
func trustHelp(path string) string {
	sh := "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	win := `"` + path + `"`
	return strings.NewReplacer("{sh}", sh, "{win}", win).Replace(`Nothing here is run for you. Trust it only where you need it, on your own machine.

Debian, Ubuntu
  sudo cp {sh} /usr/local/share/ca-certificates/lane.crt && sudo update-ca-certificates
  undo: sudo rm /usr/local/share/ca-certificates/lane.crt && sudo update-ca-certificates --fresh

Fedora, RHEL
  sudo cp {sh} /etc/pki/ca-trust/source/anchors/lane.pem && sudo update-ca-trust
  undo: sudo rm /etc/pki/ca-trust/source/anchors/lane.pem && sudo update-ca-trust

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
  certutil -A -n lane -t C,, -i {sh} -d sql:$HOME/.pki/nssdb

Java (a store of your own, as a copy of the JDK's; its password is changeit)
  cp "$JAVA_HOME/lib/security/cacerts" lane.jks
  keytool -importcert -noprompt -alias lane -file {sh} -keystore lane.jks -storepass changeit
  java -Djavax.net.ssl.trustStore=lane.jks ...

Node
  export NODE_EXTRA_CA_CERTS={sh}

Python and curl read one file that replaces the system's roots: make a bundle
  cat /etc/ssl/certs/ca-certificates.crt {sh} > lane-bundle.pem
  export REQUESTS_CA_BUNDLE=$PWD/lane-bundle.pem SSL_CERT_FILE=$PWD/lane-bundle.pem
  export CURL_CA_BUNDLE=$PWD/lane-bundle.pem
  for one call: curl --cacert {sh} https://HOST/
`)
}
