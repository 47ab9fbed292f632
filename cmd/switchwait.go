package cmd

import (
	"context"
	"fmt"
	"slices"

	"lane/pkg/consul"
	"lane/pkg/traffic"
)

// switchWaited is what the wait for a switch has shown.
type switchWaited struct {
	Routers  int     `json:"routers"`  // whose counters were read
	Requests float64 `json:"requests"` // to instances outside of the group, while it was watched
	Quiet    bool    `json:"quiet"`    // all answered, and there were none
	// Silent are the routers that did not answer.
	Silent []string `json:"silent"`
}

// waitForSwitch waits until nobody uses an old list of instances any more, and
// then reads twice how many requests the others have got. What no router says is
// unknown, and unknown is no success.
func (f *factory) waitForSwitch(ctx context.Context, client *consul.Client, o *switchOptions, groups []*group) (*switchWaited, error) {
	all, err := routers(ctx, client)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(f.io.Err, "waiting %s for callers that keep a list of instances, and %s to see that none uses it\n", o.cacheTTL, o.watch); err != nil {
		return nil, err
	}
	if err := sleep(ctx, o.cacheTTL); err != nil {
		return nil, err
	}
	var old []string
	for _, g := range groups {
		if g.Group != o.group {
			old = append(old, g.ids...)
		}
	}
	a := newAdmin()
	before := each(all, a.ask(ctx, o.service, old))
	if err := sleep(ctx, o.watch); err != nil {
		return nil, err
	}
	after := each(all, a.ask(ctx, o.service, old))
	w := &switchWaited{Silent: []string{}}
	for i, r := range all {
		err := before[i].err
		if err == nil {
			err = after[i].err
		}
		switch {
		case err == nil:
			w.Routers++
			// A counter that went back belongs to a router that was started anew.
			if n := after[i].requests - before[i].requests; n >= 0 {
				w.Requests += n
			} else {
				w.Requests += after[i].requests
			}
		case !dead(r):
			w.Silent = append(w.Silent, r.ID)
			if _, err := fmt.Fprintf(f.io.Err, "%s: %s\n", traffic.Printable(r.ID), traffic.Printable(err.Error())); err != nil {
				return nil, err
			}
		}
	}
	return w, w.verdict(f, o)
}

func (w *switchWaited) verdict(f *factory, o *switchOptions) error {
	switch {
	case w.Requests > 0:
		return fmt.Errorf("%.0f requests went to other groups of %s than %s within %s", w.Requests, o.service, o.group, o.watch)
	case len(w.Silent) > 0:
		return fmt.Errorf("%d of %d routers did not say whether they still use the other groups", len(w.Silent), len(w.Silent)+w.Routers)
	case w.Routers == 0:
		return &noDataError{msg: "no router could be asked: all that are in the registry are dead", hint: ""}
	}
	w.Quiet = true
	if o.json {
		return nil
	}
	by := "router"
	if w.Routers != 1 {
		by += "s"
	}
	_, err := fmt.Fprintf(f.io.Out, "no request went to another group of %s, by %d %s\n", o.service, w.Routers, by)
	return err
}

// oldRequests is how many requests a router has sent to instances so far.
type oldRequests struct {
	requests float64
	err      error
}

func (a *admin) ask(ctx context.Context, service string, ids []string) func(consul.Router) oldRequests {
	return func(r consul.Router) oldRequests {
		by, err := a.served(ctx, r, service)
		var sum float64
		for id, n := range by {
			if slices.Contains(ids, id) {
				sum += n
			}
		}
		return oldRequests{sum, err}
	}
}
