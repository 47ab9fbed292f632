package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lane/pkg/config"
	"lane/pkg/detect"
	"lane/pkg/lane"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

type initOptions struct {
	service string
	port    int
	health  string
	preset  string
	yes     bool
}

// usualPorts are where services under development listen, if the build files
// know nothing better.
var usualPorts = []int{8080, 3000, 8000, 8081, 9000, 5000, 8888, 9090}

func newInitCmd(f *factory) *cobra.Command {
	o := &initOptions{}
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a first lane.yaml for the service in this directory",
		Long: `Write a first lane.yaml: the service's name and framework from go.mod, pom.xml,
build.gradle or package.json, the preset whose header that framework passes on by
itself, and a port on which something listens. On a terminal it asks, with what it
has found as the default; off it, flags say what it should not guess. An existing
lane.yaml is never touched.`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return runInit(c.Context(), f, o) },
	}
	addFlag(c, &o.service, "service", "", anOwnName, "name of the service in the registry")
	addFlag(c, &o.port, "port", "", aPort, "port of the local process")
	addFlag(c, &o.health, "health", "", aPath, "path of the local process that tells its health")
	addFlag(c, &o.preset, "preset", "", checked("NAME", config.CheckPreset), "a header convention (docs/routing.md lists them)")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "ask nothing")
	_ = c.RegisterFlagCompletionFunc("preset", completeWords("preset"))
	return c
}

func runInit(ctx context.Context, f *factory, o *initOptions) error {
	path := filepath.Join(f.dir, config.FileName)
	if _, err := os.Lstat(path); err == nil {
		return usagef("edit it, or remove it first", "%s is there already, and is not touched", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	found, err := detect.Look(os.DirFS(f.dir), filepath.Base(f.dir))
	if err != nil {
		return fmt.Errorf("look at the build files: %w", err)
	}
	first, listens, err := f.first(ctx, o, &found)
	if err != nil {
		return err
	}
	guessed := guesses(o, &first, &found, listens)
	if f.io.IsStdinTTY && f.io.IsStderrTTY && !o.yes {
		if err := f.askFirst(&first); err != nil {
			return err
		}
		guessed = "" // they were shown, and taken
	}
	if err := checkFirst(&first); err != nil {
		return err
	}
	// O_EXCL: what somebody has written meanwhile stays.
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	_, err = out.Write(detect.Render(first))
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	return f.reportInit(path, &first, &found, guessed)
}

// first is what a first lane.yaml says when nobody is asked: flags, then what
// was found. listens says that the port was found by what listens there.
func (f *factory) first(ctx context.Context, o *initOptions, found *detect.Found) (first detect.First, listens bool, err error) {
	first = detect.First{Service: o.service, Port: o.port, Health: o.health, Preset: o.preset}
	if first.Service == "" {
		first.Service = found.Service
		if found.ServiceFrom != "" {
			first.ServiceNote = "Named after " + found.ServiceFrom + "."
		}
	}
	if first.Preset == "" {
		first.Preset, first.PresetNote = found.Preset, found.Why
	}
	if first.Health == "" {
		first.Health = found.Health
	}
	if first.Port == 0 {
		var d net.Dialer
		ports := slices.Concat(found.Ports, usualPorts)
		if open := detect.Listening(ctx, ports, d.DialContext); len(open) > 0 {
			first.Port, listens = open[0], true
		} else if len(found.Ports) > 0 {
			first.Port = found.Ports[0]
		}
	}
	return first, listens, ctx.Err()
}

func checkFirst(first *detect.First) error {
	if first.Service == "" {
		return usagef("say it: lane init --service NAME", "the service's name is not known")
	}
	if err := config.CheckOwnName(first.Service); err != nil {
		return usagef("say another one: lane init --service NAME", "%v", err)
	}
	if first.Port != 0 {
		if _, err := config.CheckPort(strconv.Itoa(first.Port)); err != nil {
			return usagef("say another one: lane init --port PORT", "%v", err)
		}
	}
	if first.Preset != "" {
		if _, err := lane.Preset(first.Preset); err != nil {
			return usagef("say another one: lane init --preset NAME", "%v", err)
		}
	}
	return nil
}

// askFirst asks a person on a terminal; an empty answer takes what is there.
func (f *factory) askFirst(first *detect.First) error {
	in := bufio.NewReader(f.io.In)
	ask := func(question, now string) (string, error) {
		if _, err := fmt.Fprintf(f.io.Err, "%s [%s]: ", question, traffic.Printable(now)); err != nil {
			return "", err
		}
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if line = strings.TrimSpace(line); line == "" {
			return now, nil
		}
		return line, nil
	}
	var err error
	if first.Service, err = ask("Name of the service in the registry", first.Service); err != nil {
		return err
	}
	port, err := ask("Port of the local process", strconv.Itoa(first.Port))
	if err != nil {
		return err
	}
	if first.Port, err = strconv.Atoi(port); err != nil {
		return usagef("a number from 1 to 65535, or 0 for none", "%q is no port", port)
	}
	if first.Preset == "" {
		first.Preset = "lane"
	}
	first.Preset, err = ask("Header convention ("+strings.Join(lane.PresetNames(), ", ")+")", first.Preset)
	return err
}

// guesses names what stands in the file and nobody has said, with what speaks for it.
func guesses(o *initOptions, first *detect.First, found *detect.Found, listens bool) string {
	var all []string
	if o.service == "" && first.Service != "" {
		all = append(all, "the service's name "+first.Service+" (from "+found.ServiceFrom+")")
	}
	switch {
	case o.port != 0 || first.Port == 0:
	case listens:
		all = append(all, fmt.Sprintf("the port %d (something listens there)", first.Port))
	default:
		all = append(all, fmt.Sprintf("the port %d (nothing listens there now)", first.Port))
	}
	return strings.Join(all, ", ")
}

func (f *factory) reportInit(path string, first *detect.First, found *detect.Found, guessed string) error {
	w := f.io.Err
	for _, n := range found.Notes {
		fmt.Fprintf(w, "note: %s\n", traffic.Printable(n))
	}
	if found.Todo != "" {
		fmt.Fprintf(w, "note: %s\n", traffic.Printable(found.Todo))
	}
	if first.Port == 0 {
		fmt.Fprintf(w, "note: nothing listens on the usual ports; set the port in %s\n", config.FileName)
	}
	if guessed != "" {
		fmt.Fprintf(w, "note: guessed: %s; if that is wrong, edit it under services in %s\n", traffic.Printable(guessed), config.FileName)
	}
	_, err := fmt.Fprintf(f.io.Out, "wrote %s\nnext: lane up dev-%s\n", path, "YOURNAME")
	return err
}
