package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lane/pkg/lane"
	"lane/pkg/nearest"
)

// FileName is the settings file's name, in a repository and in the user's
// configuration directory.
const FileName = "lane.yaml"

// Flag is one setting as given on the command line.
type Flag struct {
	Key    string   // as in lane.yaml
	Name   string   // for messages: --drain
	Values []string // a scalar has one
}

// Options is all that Load depends on; it reads no environment and no flag by
// itself.
type Options struct {
	// Dir is where to look for lane.yaml: here, and inside a git repository in
	// each directory up to its root.
	Dir string
	// File is a lane.yaml to read in place of the one that is found.
	File string
	// UserFile is the user's own settings file; it may be absent. Empty: none.
	UserFile string
	// Home is what ~/ in a path stands for.
	Home string

	Getenv func(string) string
	Flags  []Flag

	Lane     string   // the lane as an argument or --lane; empty: LANE_TAG
	Services []string // the values of -s, see ParseService

	// Session, if set, are the settings by which a running session decides, as
	// Deciding gives them: they stand for all that the environment and the files say
	// of these, and flags come before them. SessionName is how messages call it.
	Session     map[string]string
	SessionName string

	// User and Host make the default owner; both may be empty.
	User, Host string
}

// Layers, weakest first. A value of a stronger one replaces that of a weaker.
const (
	layerDefault = iota
	layerUser
	layerProject
	layerEnv
	layerSession
	layerFlag

	layerNone = -1
)

// loader holds what Load needs while it reads.
type loader struct {
	o        Options
	s        *Settings
	source   map[string]string // key -> where its value comes from
	layer    map[string]int    // key -> the layer of its value
	now      int               // the layer that is read
	base     string            // directory that paths of this layer are relative to
	known    []Service         // of lane.yaml
	pinned   bool              // the relay's fingerprint stood in its URL
	problems []Problem
	weight   int
}

// Load resolves every setting. Its error is *Invalid, with everything that is
// wrong at once, or a failure to read a file.
func Load(o Options) (*Settings, error) {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	l := &loader{o: o, s: &Settings{Hosts: map[string]string{}}, source: map[string]string{}, layer: map[string]int{}}

	l.defaults()
	userFile, err := l.userFile()
	if err != nil {
		return nil, err
	}
	project, err := l.projectFile()
	if err != nil {
		return nil, err
	}
	l.environment()
	l.session()
	l.flags()
	l.services()
	l.relations()

	for _, f := range []string{project, userFile} {
		if f != "" {
			l.s.files = append(l.s.files, f)
		}
	}
	l.entries()
	if len(l.problems) > 0 {
		return nil, &Invalid{Problems: sorted(l.problems), Entries: l.s.entries, Files: l.s.files}
	}
	l.idle()
	return l.s, nil
}

// fail keeps a problem.
func (l *loader) fail(source, key, why string) {
	l.weight++
	l.problems = append(l.problems, Problem{Source: source, Key: key, Why: why, weight: l.weight, layer: l.now})
}

// apply gives a key a value of the present layer.
func (l *loader) apply(k *key, source string, values []string) {
	if l.o.Session != nil && l.now > layerDefault && l.now < layerSession && slices.Contains(deciding, k.name) {
		return
	}
	// Before set: it may have to undo what another key of this layer has set.
	was, wasSource := l.layer[k.name], l.source[k.name]
	l.layer[k.name], l.source[k.name] = l.now, source
	if err := k.set(l, values); err != nil {
		l.layer[k.name], l.source[k.name] = was, wasSource
		l.fail(source, k.name, err.Error())
	}
}

// exclude is for two keys that mean the same thing: the one of the stronger
// source holds, and both in one source is a mistake.
func (l *loader) exclude(key, other string) error {
	if l.now > layerDefault && l.layer[other] == l.now && l.source[other] != "" {
		return fmt.Errorf("%s is given too (%s); one of the two", other, l.source[other])
	}
	delete(l.layer, other)
	if l.now > layerDefault {
		l.source[other] = key + " is set"
	}
	return nil
}

func (l *loader) defaults() {
	l.now = layerDefault
	for i := range keys {
		if k := &keys[i]; k.def != "" {
			l.apply(k, "default", []string{k.def})
		}
	}
	l.s.Owner = defaultOwner(l.o.User, l.o.Host)
	l.source["owner"] = "default"
}

// defaultOwner is user@host, without what Windows and mDNS add to the two.
func defaultOwner(user, host string) string {
	if i := strings.LastIndexByte(user, '\\'); i >= 0 {
		user = user[i+1:]
	}
	host, _, _ = strings.Cut(host, ".")
	o, err := checkOwner(cmp.Or(user, "unknown") + "@" + cmp.Or(host, "unknown"))
	if err != nil {
		return "unknown@unknown"
	}
	return o
}

func (l *loader) userFile() (string, error) {
	if l.o.UserFile == "" {
		return "", nil
	}
	b, err := readFile(l.o.UserFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	l.now, l.base = layerUser, filepath.Dir(l.o.UserFile)
	l.yaml(l.o.UserFile, b)
	return l.o.UserFile, nil
}

func (l *loader) projectFile() (string, error) {
	path := l.o.File
	if path == "" {
		var err error
		if path, err = Find(l.o.Dir); err != nil || path == "" {
			return "", err
		}
	}
	b, err := readFile(path)
	if err != nil {
		return "", err
	}
	l.now, l.base = layerProject, filepath.Dir(path)
	l.yaml(l.shown(path), b)
	return path, nil
}

// shown is a path as a person at Dir writes it.
func (l *loader) shown(path string) string {
	if rel, err := filepath.Rel(l.o.Dir, path); err == nil && l.o.Dir != "" && len(rel) < len(path) {
		return rel
	}
	return path
}

// maxFile keeps a wrong path (a device, a dump) from filling the memory.
const maxFile = 1 << 20

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("read settings: %s is not a file of at most %d bytes", path, maxFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return b, nil
}

// Find looks for lane.yaml in dir and, inside a git repository, upward to its
// root. Outside of one it looks in dir alone: a file in /tmp is somebody else's.
// It returns "" when there is none.
func Find(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	root := gitRoot(dir)
	for at := dir; ; at = filepath.Dir(at) {
		path := filepath.Join(at, FileName)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for settings: %w", err)
		}
		if other := filepath.Join(at, "lane.yml"); exists(other) {
			return "", fmt.Errorf("%s is not read; rename it to %s", other, FileName)
		}
		if root == "" || at == root || filepath.Dir(at) == at {
			return "", nil
		}
	}
}

// gitRoot is the nearest directory at or above dir with a .git (a directory, or
// a file in worktrees and submodules), or "".
func gitRoot(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if exists(filepath.Join(at, ".git")) {
			return at
		}
		if filepath.Dir(at) == at {
			return ""
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (l *loader) environment() {
	l.now, l.base = layerEnv, l.o.Dir
	for i := range keys {
		k := &keys[i]
		for _, name := range k.env {
			v := l.o.Getenv(name)
			if v == "" {
				continue
			}
			values := []string{v}
			if k.form == list {
				values = splitList(v)
			}
			l.apply(k, name, values)
			break
		}
	}
}

func splitList(v string) []string {
	var out []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func (l *loader) flags() {
	l.now, l.base = layerFlag, l.o.Dir
	for _, f := range l.o.Flags {
		k := find(f.Key)
		if k == nil || k.set == nil || len(f.Values) == 0 {
			l.fail(f.Name, f.Key, "no such setting, or no value")
			continue
		}
		l.apply(k, f.Name, f.Values)
	}
	l.s.Lane = cmp.Or(l.o.Lane, l.o.Getenv("LANE_TAG"))
}

// services joins -s with lane.yaml: -s chooses, and may leave to the file what
// the file knows.
func (l *loader) services() {
	if len(l.o.Services) == 0 {
		l.s.Services = l.known
		return
	}
	seen := map[string]bool{}
	for _, arg := range l.o.Services {
		v, err := ParseService(arg)
		if err != nil {
			l.fail("-s", "", err.Error())
			continue
		}
		if seen[v.Name] {
			l.fail("-s", "", v.Name+" is given twice")
			continue
		}
		seen[v.Name] = true
		at := slices.IndexFunc(l.known, func(k Service) bool { return k.Name == v.Name })
		switch {
		case at >= 0 && v.Port == 0:
			v = l.known[at]
		case at >= 0:
			v.Health = l.known[at].Health
		case v.Port == 0:
			why := fmt.Sprintf("%s has no port here and none in %s; say -s %s=PORT", v.Name, FileName, v.Name)
			if near := nearest.Word(v.Name, names(l.known)); near != "" {
				why += fmt.Sprintf(", or did you mean %s?", near)
			}
			l.fail("-s", "", why)
			continue
		}
		l.s.Services = append(l.s.Services, v)
	}
	l.source["services"] = "-s"
}

func names(s []Service) []string {
	out := make([]string, len(s))
	for i := range s {
		out[i] = s[i].Name
	}
	return out
}

// relations checks what holds between settings.
func (l *loader) relations() {
	l.now = layerNone
	s := l.s
	if s.Strict {
		if s.NoMatch != Fail && l.layer["no_match"] > layerDefault {
			l.fail(l.source["no_match"], "no_match", fmt.Sprintf("strict (%s) means %s", l.source["strict"], Fail))
		}
		if s.NoMatch != Fail {
			s.NoMatch, l.source["no_match"] = Fail, "strict"
		}
	}
	if s.Strict && s.UnhealthyLane != string(lane.UnhealthyError) {
		l.fail(l.source["unhealthy_lane"], "unhealthy_lane", fmt.Sprintf("strict (%s) means %s", l.source["strict"], lane.UnhealthyError))
	}
	if (s.NoMatch == Proportional) != (s.DegradeRatio > 0) {
		key := "no_match"
		if s.NoMatch != Proportional {
			key = "degrade_ratio"
		}
		l.fail(l.source[key], key, "no_match: proportional and degrade_ratio, its share, go together")
	}
	for _, key := range []string{"min_local", "max_cross", "on_empty"} {
		if l.layer[key] > layerDefault && s.ZoneMode != string(lane.ZoneAffinity) {
			l.fail(l.source[key], key, fmt.Sprintf("zone_mode (%s) is %s, and only with %s may a request leave its zone or not", l.source["zone_mode"], s.ZoneMode, lane.ZoneAffinity))
		}
	}
	if l.layer["max_cross"] > layerDefault && s.MinLocal < 2 && s.OnEmpty != string(lane.OnEmptyCap) {
		l.fail(l.source["max_cross"], "max_cross", "it caps nothing: set on_empty: cap, or min_local to 2 or more")
	}
	if l.layer["warmup_curve"] > layerDefault && l.layer["warmup"] == layerDefault {
		l.fail(l.source["warmup_curve"], "warmup_curve", "there is no warm-up that it could be of: set warmup, or LANE_WARMUP, e.g. 2m")
	}
	if s.Via == ViaRelay && s.Relay == "" {
		l.fail(l.source["via"], "via", "there is no relay: set relay, or LANE_RELAY, or --relay")
	}
	if (s.RelayCertFile == "") != (s.RelayKeyFile == "") {
		key := "relay_cert_file"
		if s.RelayCertFile == "" {
			key = "relay_key_file"
		}
		l.fail(l.source[key], key, "relay_cert_file and relay_key_file go together")
	}
	// Consul's client prefers a token file to a token; a file named in lane.yaml
	// must not win over a token in the environment.
	if l.o.Getenv("CONSUL_HTTP_TOKEN") != "" && l.layer["consul.token_file"] < layerEnv && s.Consul.TokenFile != "" {
		s.Consul.TokenFile, l.source["consul.token_file"] = "", "CONSUL_HTTP_TOKEN is set"
	}
}

// path keeps a file's path, absolute: ~/ is the home directory, and a relative
// one is relative to the file that it stands in.
func (l *loader) path(field *string, v string) error {
	if v == "" || strings.ContainsRune(v, 0) {
		return fmt.Errorf("%q is no path", v)
	}
	if rest, ok := strings.CutPrefix(v, "~/"); ok {
		if l.o.Home == "" {
			return fmt.Errorf("%q: there is no home directory", v)
		}
		v = filepath.Join(l.o.Home, rest)
	}
	if !filepath.IsAbs(v) {
		v = filepath.Join(l.base, v)
	}
	*field = filepath.Clean(v)
	return nil
}

// idle finds what is set and does nothing.
func (l *loader) idle() {
	var set []string
	for _, key := range []string{"min_local", "max_cross", "on_empty"} {
		if l.layer[key] > layerDefault && l.s.Zone == "" {
			set = append(set, key+" ("+l.source[key]+")")
		}
	}
	if len(set) > 0 {
		l.s.warnings = append(l.s.warnings, strings.Join(set, ", ")+": does nothing without a zone of one's own; set zone, LANE_ZONE or --zone")
	}
}

// wrong is where a mistake stands that keeps a key from being known: "" if the value
// that is in effect is of a stronger source.
func (l *loader) wrong(k *key) string {
	for _, p := range l.problems {
		of := p.Key == k.name || strings.HasPrefix(p.Key, k.name+".")
		if k.form == services && p.Source == "-s" {
			of = true
		}
		if of && p.layer != layerNone && p.layer >= l.layer[k.name] {
			return p.Source
		}
	}
	return ""
}

func (l *loader) entries() {
	for i := range keys {
		k := &keys[i]
		e := Entry{Key: k.name, Value: k.show(l.s), Source: cmp.Or(l.source[k.name], "default")}
		if at := l.wrong(k); at != "" {
			e = Entry{Key: k.name, Source: at, Wrong: true}
		}
		l.s.entries = append(l.s.entries, e)
		if k.name == "relay_token_file" && l.o.Getenv("LANE_RELAY_TOKEN") != "" {
			l.s.entries = append(l.s.entries, Entry{Key: "relay_token", Value: "(set, not shown)", Source: "LANE_RELAY_TOKEN"})
		}
		if k.name == "consul.token_file" && l.o.Getenv("CONSUL_HTTP_TOKEN") != "" {
			l.s.entries = append(l.s.entries, Entry{Key: "consul.token", Value: "(set, not shown)", Source: "CONSUL_HTTP_TOKEN"})
		}
	}
}
