package cmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"lane/pkg/control"

	"github.com/spf13/cobra"
)

// sessions finds this user's running sessions, and those that do not answer.
func (f *factory) sessions(ctx context.Context) ([]control.Found, *control.SilentError, error) {
	dir, err := f.runtimeDir()
	if err != nil {
		return nil, nil, err
	}
	return control.Sessions(ctx, dir)
}

// session finds the session that a command is about: of the lane that was
// named, else of LANE_TAG, else the only one.
func (f *factory) session(ctx context.Context, name string) (control.Found, error) {
	all, silent, err := f.sessions(ctx)
	if err != nil {
		return control.Found{}, err
	}
	given := name
	if name, err = f.named(name); err != nil {
		return control.Found{}, err
	}
	none := &noSessionError{lane: name, byTag: given == "" && name != ""}
	var fit []control.Found
	for _, s := range all {
		if name == "" || string(s.Status.Lane) == name {
			fit = append(fit, s)
		}
	}
	switch {
	case len(fit) == 0 && silent != nil:
		return control.Found{}, silent // it may be the one
	case len(fit) == 0 && name != "" && len(all) > 0:
		none.running, none.last = lanes(all), f.lastWords(name)
		return control.Found{}, none
	case len(fit) == 0:
		none.last = f.lastWords(name)
		return control.Found{}, none
	case name != "":
		// Any session of a lane has a proxy that colors with it; the oldest one.
		return fit[0], f.noteSilent(silent)
	case len(fit) == 1 && silent == nil:
		return fit[0], nil
	}
	return control.Found{}, several("--lane LANE", "`--lane %s` takes the oldest", all, silent)
}

// named is the lane that was named, else that of LANE_TAG, else none.
func (f *factory) named(name string) (string, error) {
	where := ""
	if name == "" {
		name, where = f.getenv("LANE_TAG"), "LANE_TAG: "
	}
	if name == "" {
		return "", nil
	}
	if _, err := readLane(name); err != nil {
		return "", usagef("`lane ls` lists the lanes", "%s%v", where, err)
	}
	return name, nil
}

// several says that it has to be said which session is meant; one says what the name
// does where all are of the same lane.
func several(how, one string, all []control.Found, silent *control.SilentError) error {
	names := lanes(all)
	if len(all) > 1 && silent == nil && all[0].Status.Lane == all[len(all)-1].Status.Lane { // by lane
		pids := make([]string, len(all))
		for i, s := range all {
			pids[i] = strconv.Itoa(s.Status.PID)
		}
		return usagef(fmt.Sprintf(one, names), "several sessions of lane %s run on this machine: the processes %s", names, strings.Join(pids, ", "))
	}
	if silent != nil {
		names += "; and " + silent.Error()
	}
	return usagef("say which: "+how, "several sessions run on this machine: %s", names)
}

// noteSilent says what was not asked, and what to do about it.
func (f *factory) noteSilent(silent *control.SilentError) error {
	if silent == nil {
		return nil
	}
	_, err := fmt.Fprintf(f.io.Err, "lane: %s; %s\n", silent, wake(silent))
	return err
}

// wake is the way out of a silent session.
func wake(silent *control.SilentError) string {
	pids := strings.Join(silent.PIDs, " ")
	return "if it was stopped: kill -CONT " + pids + "; if it hangs: kill -9 " + pids + ", and its guardian cleans up"
}

func lanes(all []control.Found) string {
	var names []string
	for _, s := range all {
		n := string(s.Status.Lane)
		if len(names) == 0 || names[len(names)-1] != n {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// laneFlag is --lane LANE as the first argument of a command whose other
// arguments are not lane's own.
func laneFlag(args []string) (name string, rest []string, err error) {
	if len(args) == 0 {
		return "", args, nil
	}
	if v, ok := strings.CutPrefix(args[0], "--lane="); ok {
		return v, args[1:], nil
	}
	if args[0] == "--lane" {
		if len(args) < 2 {
			return "", nil, usagef("`lane status` names those that run", "--lane: there is no LANE behind it")
		}
		return args[1], args[2:], nil
	}
	return "", args, nil
}

// completeLanes completes the lanes of this machine's sessions.
func (f *factory) completeLanes(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.laneNames(c.Context()), cobra.ShellCompDirectiveNoFileComp
}

func (f *factory) laneNames(ctx context.Context) []string {
	all, _, err := f.sessions(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range all {
		var names []string
		for _, v := range s.Status.Services {
			names = append(names, v.Name)
		}
		out = append(out, fmt.Sprintf("%s\t%s", s.Status.Lane, strings.Join(names, ", ")))
	}
	return out
}
