package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

const (
	needSwitches      = `key:write on the prefix "lane/switches/"`
	needSwitchesReads = `key:read on the prefix "lane/switches/"`
)

// Switches reads the switches from the registry, not from a watch: for commands.
// Those that cannot be read are UnreadableSwitchErrors, beside the others.
func (c *Client) Switches(ctx context.Context) (lane.Switches, error) {
	var pairs api.KVPairs
	err := c.do(ctx, "read the switches", needSwitchesReads, func(ctx context.Context) (err error) {
		pairs, _, err = c.list(ctx, switchesPrefix, query(ctx))
		return err
	})
	sw, bad := decodeSwitches(pairs)
	if err == nil && len(bad) > 0 {
		err = bad
	}
	return sw, err
}

// Kill has every router ignore the tag of the lane, or with all those of all
// lanes. It returns what is killed afterwards, and whether that is news. A value
// that cannot be read is an *UnreadableSwitchError, and stays; force writes over it, and
// then nothing else is killed.
func (c *Client) Kill(ctx context.Context, l lane.Name, all, force bool) (lane.Switches, bool, error) {
	return c.editKills(ctx, l, all, force, func(v *killValue) {
		if all {
			v.All = true
			return
		}
		v.Lanes = append(v.Lanes, l)
	})
}

// Unkill takes a Kill back. A lane that was killed by its name stays killed when
// all are not any more. force is that of Kill.
func (c *Client) Unkill(ctx context.Context, l lane.Name, all, force bool) (lane.Switches, bool, error) {
	return c.editKills(ctx, l, all, force, func(v *killValue) {
		if all {
			v.All = false
			return
		}
		v.Lanes = slices.DeleteFunc(v.Lanes, func(n lane.Name) bool { return n == l })
	})
}

func (c *Client) editKills(ctx context.Context, l lane.Name, all, force bool, change func(*killValue)) (lane.Switches, bool, error) {
	if !all {
		if _, err := lane.ParseName(string(l)); err != nil {
			return lane.Switches{}, false, &ValidationError{Field: "lane", Value: string(l), Why: err.Error()}
		}
	}
	var after killValue
	changed, err := c.edit(ctx, editing{"write the kill switch", killKey, needSwitchesReads, needSwitches}, func(old []byte) ([]byte, error) {
		var before killValue
		var bad *UnreadableSwitchError
		if old != nil {
			before, bad = decodeKill(old)
		}
		if bad != nil && !force {
			return nil, bad
		}
		after = killValue{All: before.All, Lanes: append([]lane.Name{}, before.Lanes...)}
		change(&after)
		slices.Sort(after.Lanes)
		after.Lanes = slices.Compact(after.Lanes)
		if bad == nil && after.All == before.All && sameLanes(after.Lanes, before.Lanes) {
			return old, nil
		}
		return json.Marshal(after)
	})
	return lane.Switches{KillAll: after.All, KilledLanes: after.Lanes}, changed, err
}

// sameLanes compares with a list that somebody may have written by hand.
func sameLanes(sorted, other []lane.Name) bool {
	other = slices.Clone(other)
	slices.Sort(other)
	return slices.Equal(sorted, slices.Compact(other))
}

// CheckGroup returns a *ValidationError for what cannot be the name of a group.
func CheckGroup(service, group string) error {
	if _, bad := decodeGroup(service, []byte(group)); bad != nil {
		return &ValidationError{Field: "group", Value: group, Why: bad.Why, Fix: "`lane switch " + service + "` lists its groups"}
	}
	return nil
}

// SetGroup makes a group the only baseline of a service; "" makes all of its
// instances the baseline again. It returns the group before, and whether the new
// one is news. A value that cannot be read is an *UnreadableSwitchError, and stays, unless
// force writes over it.
func (c *Client) SetGroup(ctx context.Context, service, group string, force bool) (before string, changed bool, err error) {
	if err := checkWatched(service); err != nil {
		return "", false, err
	}
	if err := CheckGroup(service, group); err != nil {
		return "", false, err
	}
	changed, err = c.edit(ctx, editing{"switch " + service, groupPrefix + service, needSwitchesReads, needSwitches}, func(old []byte) ([]byte, error) {
		var bad *UnreadableSwitchError
		before, bad = decodeGroup(service, old)
		if bad != nil && !force {
			return nil, bad
		}
		if bad == nil && before == group {
			return old, nil
		}
		return []byte(group), nil
	})
	return before, changed, err
}

// editTries bounds how often a write is tried again when others were faster:
// each of them has written then.
const editTries = 20

// editing is a key that is changed, why, and the rights that it takes.
type editing struct{ what, key, reads, writes string }

// edit changes one key by compare-and-set, again and again until nobody was in
// between. change gets the value, nil where there is none, and returns the new
// one; the same means that nothing is written, an empty one that the key goes.
func (c *Client) edit(ctx context.Context, w editing, change func(old []byte) ([]byte, error)) (changed bool, err error) {
	for range editTries {
		var pair *api.KVPair
		err := c.do(ctx, w.what, w.reads, func(ctx context.Context) (err error) {
			pair, _, err = c.api.KV().Get(w.key, query(ctx))
			return err
		})
		if err != nil {
			return false, err
		}
		next := &api.KVPair{Key: w.key}
		var old []byte
		if pair != nil {
			next.ModifyIndex, next.Flags = pair.ModifyIndex, pair.Flags
			old = append([]byte{}, pair.Value...) // never nil: an empty value is one, too
		}
		if next.Value, err = change(old); err != nil {
			return false, err
		}
		if string(next.Value) == string(old) {
			return false, nil
		}
		var written bool
		err = c.commit(ctx, w.what, w.writes, func(ctx context.Context) (err error) {
			if len(next.Value) == 0 {
				written, _, err = c.api.KV().DeleteCAS(next, write(ctx))
			} else {
				written, _, err = c.api.KV().CAS(next, write(ctx))
			}
			return err
		})
		if err != nil || written {
			return written, err
		}
	}
	return false, fmt.Errorf("%s: others wrote %s at the same time, %d times in a row", w.what, w.key, editTries)
}
