package consul

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// The keys of the switches.
const (
	killKey     = switchesPrefix + "kill"
	groupPrefix = switchesPrefix + "active/" // <service>
)

// killValue is the wire form of what is killed.
type killValue struct {
	All   bool        `json:"all"`
	Lanes []lane.Name `json:"lanes"`
}

// UnreadableSwitchError is a switch whose value nobody can read.
type UnreadableSwitchError struct {
	Key   string
	Value string // its beginning
	Why   string
}

func (e *UnreadableSwitchError) Error() string {
	return fmt.Sprintf("the switch %s holds %q, which cannot be read: %s", e.Key, e.Value, e.Why)
}

// Service is the service whose group it switches, empty for the kill switch.
func (e *UnreadableSwitchError) Service() string {
	service, _ := strings.CutPrefix(e.Key, groupPrefix)
	if service == e.Key {
		return ""
	}
	return service
}

// UnreadableSwitchErrors are all of them, never none.
type UnreadableSwitchErrors []*UnreadableSwitchError

func (e UnreadableSwitchErrors) Error() string {
	lines := make([]string, len(e))
	for i, u := range e {
		lines[i] = u.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap are the single ones, for errors.As.
func (e UnreadableSwitchErrors) Unwrap() []error {
	out := make([]error, len(e))
	for i, u := range e {
		out[i] = u
	}
	return out
}

func unreadable(key string, value []byte, why string) *UnreadableSwitchError {
	return &UnreadableSwitchError{Key: key, Value: abridge(string(value)), Why: why}
}

// decodeKill reads what is killed. It is strict: a field that it does not know may
// be a lane that is to be killed, misspelled.
func decodeKill(b []byte) (killValue, *UnreadableSwitchError) {
	var v killValue
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	var kind *json.UnmarshalTypeError
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return killValue{}, unreadable(killKey, b, "it is empty")
	case errors.As(err, &kind) && kind.Field != "":
		return killValue{}, unreadable(killKey, b, kind.Field+" is a "+kind.Value)
	case err == nil && bytes.TrimSpace(b)[0] != '{':
		return killValue{}, unreadable(killKey, b, "it is no object")
	case err != nil:
		return killValue{}, unreadable(killKey, b, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return killValue{}, unreadable(killKey, b, "something follows the object")
	}
	return v, nil
}

// decodeSwitches reads lane/switches/kill ({"all":bool,"lanes":[...]}) and
// lane/switches/active/<service> (a group's name). What cannot be read switches
// nothing in what is returned, and is named beside it.
func decodeSwitches(pairs api.KVPairs) (lane.Switches, UnreadableSwitchErrors) {
	var sw lane.Switches
	var bad UnreadableSwitchErrors
	for _, p := range pairs {
		if p.Key == killKey {
			v, u := decodeKill(p.Value)
			if u != nil {
				bad = append(bad, u)
			}
			sw.KillAll, sw.KilledLanes = v.All, v.Lanes
			continue
		}
		service, ok := strings.CutPrefix(p.Key, groupPrefix)
		if !ok || service == "" {
			continue
		}
		group, u := decodeGroup(service, p.Value)
		if u != nil {
			bad = append(bad, u)
		}
		setGroup(&sw, service, group)
	}
	return sw, bad
}

func setGroup(sw *lane.Switches, service, group string) {
	if group == "" {
		return
	}
	if sw.ActiveGroup == nil {
		sw.ActiveGroup = map[string]string{}
	}
	sw.ActiveGroup[service] = group
}

// decodeGroup reads the name of a group; people write it with a line's end, and
// nothing for none. JSON is no name: whoever writes it means something else.
func decodeGroup(service string, b []byte) (string, *UnreadableSwitchError) {
	name, why := strings.TrimSpace(string(b)), ""
	switch {
	case !utf8.ValidString(name):
		why = "it is no text"
	case strings.ContainsFunc(name, unicode.IsControl):
		why = "a group's name is one line of text"
	case name != "" && strings.ContainsRune(`{["`, rune(name[0])):
		why = "a group's name stands there as it is, without quotes or JSON"
	}
	if why != "" {
		return "", unreadable(groupPrefix+service, b, why)
	}
	return name, nil
}

// held puts in the place of each switch that cannot be read what was last read of
// it, as rules do. Before there was anything, a kill switch may kill any lane, so it
// kills all: one that is killed must not come back by a typing error. A group is not
// guessed at: all are the baseline then.
func held(told lane.Switches, bad UnreadableSwitchErrors, before lane.Switches, answered bool) lane.Switches {
	told.ActiveGroup = maps.Clone(told.ActiveGroup)
	for _, u := range bad {
		switch service := u.Service(); {
		case service != "":
			setGroup(&told, service, before.ActiveGroup[service])
		case answered:
			told.KillAll, told.KilledLanes = before.KillAll, before.KilledLanes
		default:
			told.KillAll, told.KilledLanes = true, nil
		}
	}
	return told
}

// readable lets the switches of an answer be what holds, and tells once, for each
// value, that it cannot be read.
func (l *loop) readable(told answer) answer {
	s, log := l.switches, l.w.o.Log
	for _, u := range told.unread {
		if slices.ContainsFunc(s.told.unread, func(b *UnreadableSwitchError) bool { return *b == *u }) {
			continue
		}
		holds := "what was last read holds"
		switch {
		case s.answered:
		case u.Service() == "":
			holds = "all lanes are killed until it can be read"
		default:
			holds = "no group is switched until it can be read"
		}
		log.Error("a switch in the registry cannot be read: "+holds, "key", u.Key, "value", u.Value, "why", u.Why)
	}
	for _, b := range s.told.unread {
		if !slices.ContainsFunc(told.unread, func(u *UnreadableSwitchError) bool { return u.Key == b.Key }) {
			log.Warn("a switch in the registry can be read again", "key", b.Key)
		}
	}
	told.switches = held(told.switches, told.unread, s.answer.switches, s.answered)
	return told
}

func sameSwitches(a, b lane.Switches) bool {
	return a.KillAll == b.KillAll && slices.Equal(a.KilledLanes, b.KilledLanes) && maps.Equal(a.ActiveGroup, b.ActiveGroup)
}

func sameUnread(a, b UnreadableSwitchErrors) bool {
	return slices.EqualFunc(a, b, func(a, b *UnreadableSwitchError) bool { return *a == *b })
}
