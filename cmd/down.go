package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"lane/pkg/childenv"
	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/guardian"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/session"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

type downOptions struct {
	lane  string
	force bool
	json  bool
}

// downResult is the JSON form of `lane down`.
type downResult struct {
	Schema string      `json:"schema"`
	Ended  []downEnded `json:"ended"`
}

type downEnded struct {
	Lane     string   `json:"lane"`
	PID      int      `json:"pid"`
	Services []string `json:"services"`
}

// downLimit is longer than any drain time that makes sense: the session itself
// bounds each of its steps.
const downLimit = 10 * time.Minute

func newDownCmd(f *factory) *cobra.Command {
	o := &downOptions{}
	c := &cobra.Command{
		Use:   "down [LANE]",
		Short: "End your sessions of a lane and wait until they are gone from the registry",
		Long: `End this machine's sessions of a lane, and wait until their instances are gone
from the registry. Requests under way are waited for, as long as the session's
drain time: those of others and the session's own calls, but no tunnels and upgraded
connections, which end; after a second it says on stderr what it waits for. What a
session of this machine that has died left in the registry is removed too, by its
relay where it came in by one. Without LANE it ends the only session that runs. A lane
that is down already is no error.`,
		Args:              takes("[LANE]"),
		ValidArgsFunction: f.completeLanes,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.lane = args[0]
			}
			return runDown(c.Context(), f, o)
		},
	}
	c.Flags().BoolVar(&o.force, "force", false, "do not wait for requests under way")
	jsonFlag(c, &o.json)
	return c
}

func runDown(ctx context.Context, f *factory, o *downOptions) error {
	all, silent, err := f.sessions(ctx)
	if err != nil {
		return err
	}
	name, err := f.named(o.lane)
	if err != nil {
		return err
	}
	if name == "" && (len(all) > 1 || len(all) == 1 && silent != nil) {
		return several("lane down LANE", "`lane down %s` ends them all", all, silent)
	}
	var mine []control.Found
	for _, s := range all {
		if name == "" || string(s.Status.Lane) == name {
			mine = append(mine, s)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	var ends errgroup.Group
	var saying sync.Mutex
	for _, s := range mine {
		if err := f.sayAway(s.Status.Relay, o.force); err != nil {
			return err
		}
		ends.Go(func() error {
			waiting, over := context.WithCancel(ctx)
			var said sync.WaitGroup
			if !o.force {
				said.Go(func() { f.sayWaiting(waiting, s, &saying) })
			}
			err := s.Client.Stop(ctx, o.force)
			over()
			said.Wait()
			if err != nil {
				return fmt.Errorf("end lane %s (process %d): %w", s.Status.Lane, s.Status.PID, err)
			}
			return nil
		})
	}
	if err := ends.Wait(); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) {
			return cause
		}
		return err
	}
	switch {
	case silent == nil:
	case len(mine) == 0:
		return silent // it may be the one, and what it holds is no leftover
	default:
		if err := f.noteSilent(silent); err != nil {
			return err
		}
	}
	if len(mine) == 0 && name != "" {
		client, err := f.registry()
		if err != nil {
			return err
		}
		defer client.Close()
		left, others, err := f.removeLeftover(ctx, client, lane.Name(name))
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return reportLeftover(f, o, name, left)
		}
		return reportNone(f, o, name, elsewhereHint(ctx, client, lane.Name(name), others, all))
	}
	if len(mine) == 0 {
		return reportNone(f, o, "", "")
	}
	return reportDown(f, o, mine)
}

const (
	// waitUnsaid is how long an end may take before what it waits for is said.
	waitUnsaid = time.Second
	waitLook   = 200 * time.Millisecond
)

// sayWaiting says once what the end of a session waits for, if it takes a while.
func (f *factory) sayWaiting(ctx context.Context, s control.Found, saying *sync.Mutex) {
	for wait := waitUnsaid; ; wait = waitLook {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		st, err := s.Client.Status(ctx)
		if err != nil {
			return // it has ended, or Stop says what is wrong
		}
		if st.Waiting == "" {
			continue
		}
		saying.Lock()
		defer saying.Unlock()
		// Who does not read it has lost nothing: the end goes on.
		_, _ = fmt.Fprintf(f.io.Err, "lane: lane %s waits for %s; --force does not wait\n", st.Lane, traffic.Printable(st.Waiting))
		return
	}
}

// sayAway says why the end of a session takes some seconds.
func (f *factory) sayAway(r *control.RelayStatus, force bool) error {
	if r == nil || r.State == control.RelayOK || force {
		return nil
	}
	_, err := fmt.Fprintf(f.io.Err, "lane: the relay %s is %s: it is waited for, 5 s at most, so that it removes what it has registered; --force does not wait\n", r.URL, r.State)
	return err
}

// removeLeftover removes what a session of this installation, which no longer
// runs, has left of a lane in the registry, and returns the services, and the claims of
// others.
func (f *factory) removeLeftover(ctx context.Context, client *consul.Client, name lane.Name) (services []string, others []lane.Claim, err error) {
	state, err := config.StateDir(f.system())
	if err != nil {
		return nil, nil, err
	}
	install, err := config.InstallID(state)
	if err != nil {
		return nil, nil, err
	}
	claims, err := client.Claims(ctx, name)
	if err != nil {
		return nil, nil, fmt.Errorf("look for what a dead session has left: %w", err)
	}
	var far []lane.Claim
	for _, c := range claims {
		if c.Install != install || !consul.OwnID(c.ID, name, c.Service, install) {
			others = append(others, c)
			continue
		}
		if c.Relay != "" { // its session holds the claims of others, too
			far = append(far, c)
			continue
		}
		if err := client.RemoveLeftover(ctx, c.Session, "", []lane.Claim{c}); err != nil {
			return services, others, err
		}
		services = append(services, c.Service)
	}
	gone, err := f.yieldLeftover(ctx, client, install, far)
	return append(services, gone...), others, err
}

// elsewhereHint says who holds a lane that is none of this machine's, or which one may have
// been meant if nobody does.
func elsewhereHint(ctx context.Context, client *consul.Client, name lane.Name, others []lane.Claim, here []control.Found) string {
	var holders []string
	for _, c := range others {
		who := traffic.Printable(lane.Holder(cmp.Or(c.Owner, "somebody"), c.Host))
		if c.Session != "" && !slices.Contains(holders, who) {
			holders = append(holders, who)
		}
	}
	if len(holders) > 0 {
		return "it is held by " + strings.Join(holders, ", ") + ", where it can be ended"
	}
	var more []lane.Name
	for _, s := range here {
		more = append(more, s.Status.Lane)
	}
	if near := nearLane(ctx, client, name, more); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// yieldLeftover has the relay of the settings give up what it holds for a session of
// this installation that has died, and returns the services that are gone then.
func (f *factory) yieldLeftover(ctx context.Context, client *consul.Client, install string, far []lane.Claim) (services []string, err error) {
	if len(far) == 0 {
		return nil, nil
	}
	why := f.yieldHere(ctx, install, far)
	now, err := client.Claims(ctx, far[0].Lane)
	if err != nil {
		return nil, fmt.Errorf("look for what a dead session has left: %w", err)
	}
	for _, c := range far {
		i := slices.IndexFunc(now, func(n lane.Claim) bool { return n.Service == c.Service && n.Session == c.Session && n.ID == c.ID })
		if i < 0 {
			services = append(services, c.Service)
			continue
		}
		text := "the relay does not give it up"
		if why != nil {
			text = why.Error()
		}
		if _, err := fmt.Fprintf(f.io.Err, "lane: %s is held by the relay %s for a session that has died: it removes the instance within 30 s (Consul within %s, if it has died too), "+
			"and the claim %s stands for once to twice its --claim-ttl (10 to 20 minutes unless it was told another): %s\n",
			c.Service, c.Relay, consul.HoldOptions{}.Gone(), consul.ClaimKey(c.Lane, c.Service), text); err != nil {
			return services, err
		}
	}
	return services, nil
}

// yieldHere gives up through the relay of the settings what its install holds of a lane.
func (f *factory) yieldHere(ctx context.Context, install string, far []lane.Claim) error {
	s, err := f.settings(given{})
	if err != nil {
		return err
	}
	if s.Relay == "" {
		return errors.New("with LANE_RELAY, and a token, lane down has it given up at once")
	}
	var up proxy.Upstream
	up.HTTP, up.HTTPS, up.NoProxy = childenv.Inherited(f.environ, runtime.GOOS == "windows")
	by, err := f.relayOf(s, up)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // shown only
	w := guardian.Relay{Install: install, Host: host}
	for _, c := range far {
		w.Claims = append(w.Claims, guardian.FarClaim{Lane: string(c.Lane), Service: c.Service})
	}
	return session.Yield(ctx, by, w)
}

func reportLeftover(f *factory, o *downOptions, name string, services []string) error {
	if o.json {
		return f.printJSON(downResult{Schema: "lane.down/v1", Ended: []downEnded{{Lane: name, Services: services}}})
	}
	_, err := fmt.Fprintf(f.io.Out, "%s (its session had died)\n", farewell(name, services))
	return err
}

// reportNone says that nothing was ended; more is what else is known of the lane.
func reportNone(f *factory, o *downOptions, name, more string) error {
	if o.json {
		return f.printJSON(downResult{Schema: "lane.down/v1", Ended: []downEnded{}})
	}
	what := "no session runs on this machine"
	if name != "" {
		what = "lane " + name + " has no session on this machine"
	}
	if more != "" {
		what += "; " + more
	}
	if last := f.lastWords(name); last != "" {
		what += "\n" + last
	}
	_, err := fmt.Fprintf(f.io.Err, "nothing to end: %s\n", what)
	return err
}

func reportDown(f *factory, o *downOptions, ended []control.Found) error {
	res := downResult{Schema: "lane.down/v1", Ended: []downEnded{}}
	for _, s := range ended {
		e := downEnded{Lane: string(s.Status.Lane), PID: s.Status.PID, Services: []string{}}
		for _, v := range s.Status.Services {
			e.Services = append(e.Services, v.Name)
		}
		res.Ended = append(res.Ended, e)
	}
	if o.json {
		return f.printJSON(res)
	}
	for _, e := range res.Ended {
		if _, err := fmt.Fprintln(f.io.Out, farewell(e.Lane, e.Services)); err != nil {
			return err
		}
	}
	return nil
}

// farewell says what the end of a session has removed.
func farewell(name string, services []string) string {
	switch len(services) {
	case 0:
		return "lane " + name + " is down: it only colored calls"
	case 1:
		return "lane " + name + " is down: " + services[0] + " is gone from the registry"
	}
	return "lane " + name + " is down: " + strings.Join(services, ", ") + " are gone from the registry"
}
