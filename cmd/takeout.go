package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// removal is what was done with one instance of a killed lane.
type removal struct {
	Lane    string `json:"lane"`
	Service string `json:"service"`
	ID      string `json:"id"`
	Drained bool   `json:"drained"` // it was marked as draining, and given time
	Removed bool   `json:"removed"`
	Why     string `json:"why,omitempty"` // why it is still there
}

// takeOut takes the instances of a lane, or of all for "", out of the registry.
// In its order a caller that reads no switches sees a lane that drains, then one
// that is absent, and never a sick one: mark, wait, drop the claims, deregister.
type takeOut struct {
	f      *factory
	client *consul.Client
	lane   lane.Name
	drain  time.Duration
	quiet  bool // says nothing on standard output

	claims  []lane.Claim
	dropped []lane.Claim             // of claims
	drains  bool                     // one instance at least drains
	marked  map[string]lane.Instance // by ID: what this command has marked, and has not begun to remove
	done    []removal
}

// unmarkLimit bounds the taking back of the marks.
const unmarkLimit = 10 * time.Second

// sessionsEndLimit is how long the sessions behind dropped claims get to take their
// instances out themselves.
const sessionsEndLimit = 10 * time.Second

// leftError says that instances are still in the registry.
type leftError struct{ n int }

func (e *leftError) Error() string {
	if e.n == 1 {
		return "1 instance is still in the registry"
	}
	return fmt.Sprintf("%d instances are still in the registry", e.n)
}

// run takes them out. Cut short, it takes its marks back: an instance that stays
// would get no request of its lane any more, and lane unkill would not change that.
func (t *takeOut) run(ctx context.Context) error {
	t.marked = map[string]lane.Instance{}
	err := t.steps(ctx)
	var left *leftError
	if err != nil && !errors.As(err, &left) {
		t.unmark(ctx, err)
	}
	return err
}

// unmark takes the marks back from what goes on: not from what is being removed,
// by this command or by a session whose claim was dropped.
func (t *takeOut) unmark(ctx context.Context, why error) {
	for _, c := range t.dropped {
		delete(t.marked, c.ID)
	}
	if len(t.marked) == 0 {
		return
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), unmarkLimit)
	defer cancel()
	what := "ended early"
	if interrupted(ctx, why) {
		what = "interrupted"
	}
	n := 0
	for _, id := range slices.Sorted(maps.Keys(t.marked)) {
		if err := t.client.UnmarkDraining(bound, t.marked[id]); err != nil {
			fmt.Fprintf(t.f.io.Err, "%s: %s is left marked as draining: %s\n", what, traffic.Printable(id), traffic.Printable(err.Error()))
			continue
		}
		n++
		for i := range t.done {
			if t.done[i].ID == id {
				t.done[i].Drained = false
			}
		}
	}
	if n > 0 {
		still := "all lanes are killed all the same: lane unkill --all"
		if t.lane != "" {
			still = fmt.Sprintf("lane %s is killed all the same: lane unkill %s", t.lane, t.lane)
		}
		fmt.Fprintf(t.f.io.Err, "%s: of %d instances the mark as draining is taken back; %s\n", what, n, still)
	}
	if n < len(t.marked) {
		fmt.Fprintln(t.f.io.Err, "what is left gets no requests: the same command again removes it, and a new lane up of its lane replaces it")
	}
}

func (t *takeOut) steps(ctx context.Context) error {
	all, err := t.client.LaneInstances(ctx, t.lane)
	if err != nil {
		return err
	}
	if t.claims, err = t.client.Claims(ctx, t.lane); err != nil {
		return err
	}
	if err := t.mark(ctx, all); err != nil {
		return err
	}
	if err := t.wait(ctx); err != nil {
		return err
	}
	for _, c := range t.claims {
		if c.Session == "" {
			continue // it declares nothing
		}
		t.dropped = append(t.dropped, c) // it may be, also if that fails
		if err := t.client.DropClaim(ctx, c); err != nil {
			return err
		}
	}
	if err := t.sessionsEnd(ctx); err != nil {
		return err
	}
	left := 0
	for i := range t.done {
		if err := t.remove(ctx, &t.done[i]); err != nil {
			return err
		}
		if !t.done[i].Removed {
			left++
		}
	}
	if err := t.say(); err != nil {
		return err
	}
	if left > 0 {
		return &leftError{n: left}
	}
	return nil
}

// mark has routers that read no switches send nothing new to the instances.
func (t *takeOut) mark(ctx context.Context, all map[string][]lane.Instance) error {
	for service, list := range all {
		for _, in := range list {
			r := removal{Lane: in.MetaLane, Service: service, ID: in.ID}
			marked, err := t.client.MarkDraining(ctx, in)
			if marked {
				t.marked[in.ID] = in
			}
			var foreign *consul.ValidationError
			var elsewhere *consul.ElsewhereError
			switch {
			case err == nil:
				r.Drained, t.drains = true, true
			case errors.As(err, &foreign):
				r.Why = "lane did not register it, so lane does not remove it"
			case errors.As(err, &elsewhere):
				r.Why = err.Error()
			default:
				return err
			}
			t.done = append(t.done, r)
		}
	}
	slices.SortFunc(t.done, func(a, b removal) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Service, b.Service), cmp.Compare(a.ID, b.ID))
	})
	return nil
}

// wait gives what is under way its time: how much that is, only the sessions know.
func (t *takeOut) wait(ctx context.Context) error {
	if !t.drains || t.drain == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(t.f.io.Err, "marked as draining; waiting %s for requests under way\n", t.drain); err != nil {
		return err
	}
	return sleep(ctx, t.drain)
}

// sessionsEnd waits until the sessions have taken their instances out, which
// they do when their claim is gone. One that is removed before, while its session
// still beats, would be registered again.
func (t *takeOut) sessionsEnd(ctx context.Context) error {
	if !slices.ContainsFunc(t.claims, func(c lane.Claim) bool { return c.Session != "" }) {
		return nil
	}
	bound, cancel := context.WithTimeout(ctx, sessionsEndLimit)
	defer cancel()
	for {
		all, err := t.client.LaneInstances(bound, t.lane)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if bound.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if !t.held(all) || sleep(bound, 100*time.Millisecond) != nil {
			return context.Cause(ctx)
		}
	}
}

// held reports whether an instance of one of the claims is still there.
func (t *takeOut) held(all map[string][]lane.Instance) bool {
	for _, c := range t.claims {
		if c.Session != "" && slices.ContainsFunc(all[c.Service], func(in lane.Instance) bool { return in.ID == c.ID }) {
			return true
		}
	}
	return false
}

// remove deregisters one instance, or finds it gone.
func (t *takeOut) remove(ctx context.Context, r *removal) error {
	if r.Why != "" && !r.Drained {
		all, err := t.client.LaneInstances(ctx, lane.Name(r.Lane))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all[r.Service], func(in lane.Instance) bool { return in.ID == r.ID }) {
			return nil
		}
		r.Removed, r.Why = true, "" // its session did it, at its own agent
		return nil
	}
	delete(t.marked, r.ID)
	err := t.client.Deregister(ctx, r.ID)
	var left *consul.LeftoverError
	switch {
	case err == nil:
		r.Removed = true
	case errors.As(err, &left) && ctx.Err() == nil:
		r.Why = left.Err.Error()
	default:
		return err
	}
	return nil
}

func (t *takeOut) say() error {
	if t.quiet {
		return nil
	}
	if len(t.done) == 0 {
		_, err := fmt.Fprintln(t.f.io.Err, "nothing to take out: the registry has no instance of it")
		return err
	}
	var b strings.Builder
	for _, r := range t.done {
		line := fmt.Sprintf("removed: %s of lane %s (%s)", r.Service, r.Lane, r.ID)
		if !r.Removed {
			line = fmt.Sprintf("left: %s of lane %s (%s): %s", r.Service, r.Lane, r.ID, r.Why)
		}
		b.WriteString(traffic.Printable(line) + "\n")
	}
	_, err := t.f.io.Out.Write([]byte(b.String()))
	return err
}

// sleep waits; the error says what ended it early.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
