package cmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the release build with -ldflags -X.
var version string

type versionOptions struct {
	json bool
}

// versionInfo is the JSON form of `lane version`.
type versionInfo struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCmd(f *factory) *cobra.Command {
	o := &versionOptions{}
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of lane",
		Args:  takes(),
		RunE:  func(*cobra.Command, []string) error { return runVersion(f, o) },
	}
	jsonFlag(c, &o.json)
	return c
}

func runVersion(f *factory, o *versionOptions) error {
	v := readVersion(f.build)
	if o.json {
		return f.printJSON(v)
	}
	rev := v.Revision
	if v.Modified {
		rev += ", modified"
	}
	if rev != "" {
		rev = " (" + rev + ")"
	}
	_, err := fmt.Fprintf(f.io.Out, "lane %s%s %s %s\n", v.Version, rev, v.Go, v.Platform)
	return err
}

// readVersion takes the release's version, else what the go command recorded.
func readVersion(build func() (*debug.BuildInfo, bool)) versionInfo {
	v := versionInfo{Schema: "lane.version/v1", Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info := &debug.BuildInfo{}
	if build != nil {
		if got, ok := build(); ok {
			info = got
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "devel"
	}
	return v
}
