package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"lane/pkg/consul"
	"lane/pkg/printer"

	"github.com/spf13/cobra"
)

type gcOptions struct {
	dryRun bool
	yes    bool
	json   bool
	// goneRelays has the claims of relays that are gone removed too.
	goneRelays bool
}

// gcLimit bounds all that `lane gc` asks and writes.
const gcLimit = 2 * time.Minute

// gcResult is the JSON form of `lane gc`.
type gcResult struct {
	Schema string   `json:"schema"`
	DryRun bool     `json:"dry_run"` // nothing was to be removed
	Items  []gcItem `json:"items"`
	// Silent are the process ids of this machine's sessions that do not answer: what
	// they may hold was not looked at.
	Silent []int `json:"silent,omitempty"`
}

func newGCCmd(f *factory) *cobra.Command {
	o := &gcOptions{}
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove what dead sessions have left: instances, claims, sockets, logs",
		Long: `List what dead sessions have left, and remove it with --yes, or when you say so on a
terminal. Listed are, in the registry, instances of lanes with neither a claim nor a
liveness check that passes, keys of claims that nobody holds, and the claims of
sessions of this machine that have died; on this machine, sockets of dead sessions,
and their logs, but the newest of each lane.

The claims of a relay that has died stand for 10 to 20 minutes, so that the lane's
callers get an error, and not the baseline, until its laptop is at another relay. They
are listed, and left, unless --gone-relays says that nobody comes back.

Nothing that lives is removed: before each removal the registry is asked once more,
and no clock is ever asked. What lane has not registered is not touched. While a session
of this machine does not answer, nothing of this machine but sockets is looked at: it is
said which one, and the exit code is 3. An instance is removed by the agent with which
it is registered, and by no other: one of another agent is listed with its node, and is
left.

It exits 0 also if something is left that may live, 1 if something could not be removed
that is dead, and 3 if the registry or a session of this machine does not answer.`,
		Example: `  lane gc --dry-run
  lane gc --yes
  lane gc --gone-relays --dry-run`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return runGC(c.Context(), f, o) },
	}
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only list it")
	c.Flags().BoolVar(&o.goneRelays, "gone-relays", false, "also remove the claims of relays that are gone for good")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "remove it without a question")
	jsonFlag(c, &o.json)
	return c
}

func runGC(ctx context.Context, f *factory, o *gcOptions) error {
	if o.dryRun && o.yes {
		return usagef("give one of the two", "--dry-run removes nothing, and --yes removes it")
	}
	ctx, cancel := context.WithTimeout(ctx, gcLimit)
	defer cancel()
	here, err := f.remainsHere(ctx)
	if err != nil {
		return err
	}
	here.goneRelays = o.goneRelays
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	// What is on this machine is removed all the same when the registry is away.
	there, away := client.Remains(ctx)
	items := here.local()
	unseen := here.unseen(away)
	if away == nil {
		dead := planGC(there, here)
		if err := findElsewhere(ctx, client, dead); err != nil {
			return err
		}
		items = append(dead, items...)
	}
	remove, err := f.agreed(ctx, o, items, away)
	if err != nil {
		return err
	}
	left := false
	for i := range items {
		if remove {
			items[i].remove(ctx, client)
			left = left || items[i].Failed
		}
	}
	if err := f.printGC(o, items, here.silentPIDs(), remove, unseen == nil); err != nil {
		return err
	}
	switch {
	case unseen != nil:
		return unseen
	case left:
		return &exitError{code: exitFailed} // each was named
	}
	return nil
}

// agreed is whether to remove: it was said so, or the person at the terminal does.
func (f *factory) agreed(ctx context.Context, o *gcOptions, items []gcItem, away error) (bool, error) {
	n := removable(items)
	switch {
	case o.yes, n == 0:
		return o.yes, nil
	case o.dryRun, o.json, !f.io.CanAsk():
		return false, nil
	}
	if err := f.listGC(items, false); err != nil {
		return false, err
	}
	if away != nil {
		fmt.Fprintf(f.io.Err, "lane: %v\n", away)
	}
	if _, err := fmt.Fprintf(f.io.Err, "remove %s? [y/N] ", count(n, "leftover")); err != nil {
		return false, err
	}
	answer := make(chan string, 1)
	go func() { // it ends with the process, if nobody answers
		line, _ := bufio.NewReader(f.io.In).ReadString('\n') // the end of the input is a no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case a := <-answer:
		return a == "y" || a == "yes", nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

func removable(items []gcItem) (n int) {
	for _, it := range items {
		if it.Kept == "" {
			n++
		}
	}
	return n
}

// findElsewhere marks the instances that the agent which answers cannot remove.
func findElsewhere(ctx context.Context, client *consul.Client, items []gcItem) error {
	for i := range items {
		it := &items[i]
		if it.Kind != gcInstance || it.Kept != "" {
			continue
		}
		known, err := client.Knows(ctx, it.entry)
		if err != nil {
			return err
		}
		if !known {
			it.Kept, it.Failed = (&consul.ElsewhereError{ID: it.ID, Node: it.Node, Address: client.Address()}).Error(), true
		}
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// printGC prints what was found; all says that nothing was left out of the look.
func (f *factory) printGC(o *gcOptions, items []gcItem, silent []int, removed, all bool) error {
	if o.json {
		if items == nil {
			items = []gcItem{}
		}
		return f.printJSON(gcResult{Schema: "lane.gc/v1", DryRun: !removed, Items: items, Silent: silent})
	}
	if len(items) == 0 && !all {
		return nil // the error says what nobody has seen
	}
	if len(items) == 0 {
		_, err := fmt.Fprintln(f.io.Err, "nothing is left of dead sessions")
		return err
	}
	if asked := !o.yes && !o.dryRun && f.io.CanAsk(); !asked || removed {
		if err := f.listGC(items, removed); err != nil {
			return err
		}
	}
	if removed || removable(items) == 0 {
		return nil
	}
	how := "--yes"
	if o.goneRelays {
		how = "--gone-relays --yes"
	}
	_, err := fmt.Fprintf(f.io.Err, "nothing was removed; `lane gc %s` removes it\n", how)
	return err
}

// listGC prints one item a line, and what was, or is to be, done with it.
func (f *factory) listGC(items []gcItem, removed bool) error {
	t := printer.NewTable(f.io, "STATE", "WHAT", "LANE", "ID", "WHY").Whole()
	for _, it := range items {
		state, role, why := "dead", printer.Warn, it.Why
		switch {
		case it.Kept != "":
			state, role, why = "left", printer.Bad, it.Kept
			if !it.Failed {
				role = printer.Dim
			}
		case removed:
			state, role = "removed", printer.Good
		}
		t.Row(printer.As(role, state), printer.Text(it.Kind), printer.As(printer.Lane, it.Lane), printer.Text(it.ID), printer.Text(why))
	}
	return t.Flush()
}

// remove removes one item, and notes what came of it.
func (it *gcItem) remove(ctx context.Context, client *consul.Client) {
	if it.Kept != "" {
		return
	}
	err := it.do(ctx, client)
	var still *consul.StillThereError
	switch {
	case err == nil:
		it.Removed = true
	case errors.As(err, &still):
		it.Kept = still.Why // it lives: that is no failure
	default:
		it.Kept, it.Failed = err.Error(), true
	}
}

// removeFile removes a socket or a log, which somebody may have removed already.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
