package consul

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

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

// decodeKill reads what is killed; nothing is where it cannot be read.
func decodeKill(b []byte) killValue {
	var v killValue
	if json.Unmarshal(b, &v) != nil {
		return killValue{}
	}
	return v
}

// decodeSwitches reads lane/switches/kill ({"all":bool,"lanes":[...]}) and
// lane/switches/active/<service> (a group's name). What cannot be read switches
// nothing.
func decodeSwitches(pairs api.KVPairs) lane.Switches {
	var sw lane.Switches
	for _, p := range pairs {
		if p.Key == killKey {
			v := decodeKill(p.Value)
			sw.KillAll, sw.KilledLanes = v.All, v.Lanes
			continue
		}
		service, ok := strings.CutPrefix(p.Key, groupPrefix)
		group := decodeGroup(p.Value)
		if !ok || service == "" || group == "" {
			continue
		}
		if sw.ActiveGroup == nil {
			sw.ActiveGroup = map[string]string{}
		}
		sw.ActiveGroup[service] = group
	}
	return sw
}

// decodeGroup reads the name of a group; people write it with a line's end.
func decodeGroup(b []byte) string { return strings.TrimSpace(string(b)) }

func sameSwitches(a, b lane.Switches) bool {
	return a.KillAll == b.KillAll && slices.Equal(a.KilledLanes, b.KilledLanes) && maps.Equal(a.ActiveGroup, b.ActiveGroup)
}
