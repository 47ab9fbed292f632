package cmd

import (
	"fmt"
	"maps"
	"os"
	"os/user"
	"runtime"
	"slices"

	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/proxy"

	"github.com/spf13/cobra"
)

// given is what the command line says of the settings.
type given struct {
	lane     string
	services []string
	flags    []config.Flag
	session  *control.Status // by whose settings a request is decided; nil: by those of here
}

// settings reads all settings once: flags, environment, files, defaults.
func (f *factory) settings(g given) (*config.Settings, error) {
	home, _ := os.UserHomeDir() // none is a fact that the settings deal with
	confDir, _ := os.UserConfigDir()
	host, _ := os.Hostname()
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	o := config.Options{
		Dir: f.dir, UserFile: config.UserFile(confDir), Home: home, Getenv: f.getenv,
		Flags: g.flags, Lane: g.lane, Services: g.services, User: name, Host: host,
	}
	if g.session != nil {
		o.Session, o.SessionName = map[string]string{}, sessionName(g.session)
		maps.Copy(o.Session, g.session.Settings)
	}
	return config.Load(o)
}

// warnSettings says what is set and does nothing.
func (f *factory) warnSettings(s *config.Settings) error {
	for _, w := range s.Warnings() {
		if _, err := fmt.Fprintf(f.io.Err, "lane: warning: %s\n", w); err != nil {
			return err
		}
	}
	return nil
}

// sessionName is how messages call a session.
func sessionName(st *control.Status) string { return "the session of lane " + string(st.Lane) }

func (f *factory) system() config.System {
	home, _ := os.UserHomeDir()
	return config.System{Getenv: f.getenv, GOOS: runtime.GOOS, Home: home, Temp: os.TempDir(), UID: os.Getuid(), IsFile: isFile}
}

// isFile reports whether there is something that is no directory, as far as this user
// can see.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// runtimeDir is where this user's sessions have their sockets. It is made, and
// checked to be this user's alone.
func (f *factory) runtimeDir() (string, error) {
	dir, err := config.RuntimeDir(f.system())
	if err != nil {
		return "", err
	}
	if err := config.CheckRuntimeDir(dir); err != nil {
		return "", err
	}
	if info, err := os.Lstat(dir); err == nil && info.Mode()&os.ModeSymlink != 0 && f.getenv("LANE_RUNTIME_DIR") != "" {
		return "", &config.DirError{Name: "LANE_RUNTIME_DIR", Why: dir + " is a symbolic link, which may lead elsewhere tomorrow: set it to the directory itself"}
	}
	if err := config.MakePrivate(dir); err != nil {
		return "", fmt.Errorf("the place for the sockets of sessions: %w; LANE_RUNTIME_DIR names another place", err)
	}
	return dir, nil
}

func (f *factory) consulConfig(s *config.Settings) consul.Config {
	return consul.Config{Address: s.Consul.Address, Datacenter: s.Consul.Datacenter, Namespace: s.Consul.Namespace,
		CAFile: s.Consul.CAFile, TokenFile: s.Consul.TokenFile, Getenv: f.getenv}
}

// registry opens the registry of the settings.
func (f *factory) registry() (*consul.Client, error) {
	s, err := f.settings(given{})
	if err != nil {
		return nil, err
	}
	return consul.Open(f.consulConfig(s))
}

// setting is a flag that sets a setting of lane.yaml.
type setting struct{ flag, key, value, usage string }

// words are the values of settings that are words, for completion.
func words(key string) []string {
	switch key {
	case "via":
		return []string{config.Direct, config.ViaRelay}
	case "register":
		return []string{config.Auto, config.Shared, config.Isolated}
	case "guard":
		return []string{config.Bounce, config.Reject}
	case "no_match":
		return []string{config.Fallback, config.Fail, config.Proportional}
	case "preset":
		return lane.PresetNames()
	}
	return nil
}

// sessionSettings are the settings that `lane up` takes as flags.
var sessionSettings = []setting{
	{"register", "register", "MODE", "auto, shared (the service's own name) or isolated (lane-<lane>-<service>)"},
	{"advertise", "advertise", "IP", "address under which the environment reaches this machine"},
	{"relay", "relay", "URL", "come in by this relay, wss://HOST[:PORT][#FINGERPRINT]; none is none"},
	{"relay-fingerprint", "relay_fingerprint", "SHA256", "pin the relay's certificate: what lane relay prints"},
	{"via", "via", "WAY", "how calls to services go: direct, or relay where this machine does not reach them"},
	{"proxy", "proxy", "ADDRESS", "where the coloring proxy listens (default 127.0.0.1:7474 or the next free port)"},
	{"guard", "guard", "MODE", "what the guard does with foreign requests: bounce (to the baseline) or reject (421)"},
	{"probe", "probes", "PATH", "path that the guard answers itself; may be repeated"},
	{"drain", "drain", "DURATION", "how long the end waits for requests under way"},
	{"owner", "owner", "NAME", "who holds the lane, shown to others"},
	{"env", "env", "ENV", "environment of the instances and of the calls, a hard constraint"},
	{"tenant", "tenant", "TENANT", "tenant of the instances and of the calls, a hard constraint"},
	{"zone", "zone", "ZONE", "zone of the instances and of the calls"},
	{"app-version", "version", "VERSION", "version of the local processes, as metadata"},
	{"preset", "preset", "NAME", "header convention of another lane system, e.g. mse, asm, bridge"},
	{"no-match", "no_match", "POLICY", "a service that the lane lacks: fallback (to the baseline), fail or proportional"},
}

// flagValues are the values of a flag, as they were given; its type is the word for
// them in the help.
type flagValues struct {
	all  []string
	word string
}

func (v *flagValues) String() string     { return "" } // no default in the help: lane config has it
func (v *flagValues) Type() string       { return v.word }
func (v *flagValues) Set(s string) error { v.all = append(v.all, s); return nil }

// settingFlags adds flags for settings to a command; the function that it
// returns tells which of them were given.
func settingFlags(c *cobra.Command, which []setting) func() []config.Flag {
	values := make([]flagValues, len(which))
	for i, s := range which {
		values[i].word = s.value
		c.Flags().Var(&values[i], s.flag, s.usage)
		_ = c.RegisterFlagCompletionFunc(s.flag, completeWords(s.key))
	}
	return func() []config.Flag {
		var out []config.Flag
		for i, s := range which {
			v := values[i].all
			if len(v) == 0 {
				continue
			}
			if s.key != "probes" {
				v = v[len(v)-1:] // the last one holds, as with any flag
			}
			out = append(out, config.Flag{Key: s.key, Name: "--" + s.flag, Values: slices.Clone(v)})
		}
		return out
	}
}

// browsers is what answers of services get for browsers, by the settings.
func browsers(s *config.Settings) proxy.Browsers {
	return proxy.Browsers{AllowTag: s.CorsTag, NoStore: proxy.NoStore(s.NoStore)}
}
