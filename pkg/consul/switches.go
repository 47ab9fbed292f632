package consul

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// decodeSwitches reads lane/switches/kill ({"all":bool,"lanes":[...]}) and
// lane/switches/active/<service> (a group's name). What cannot be read switches
// nothing.
func decodeSwitches(pairs api.KVPairs) lane.Switches {
	var sw lane.Switches
	for _, p := range pairs {
		key := strings.TrimPrefix(p.Key, switchesPrefix)
		if key == "kill" {
			var v struct {
				All   bool        `json:"all"`
				Lanes []lane.Name `json:"lanes"`
			}
			if json.Unmarshal(p.Value, &v) == nil {
				sw.KillAll, sw.KilledLanes = v.All, v.Lanes
			}
			continue
		}
		service, ok := strings.CutPrefix(key, "active/")
		group := strings.TrimSpace(string(p.Value))
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

func sameSwitches(a, b lane.Switches) bool {
	return a.KillAll == b.KillAll && slices.Equal(a.KilledLanes, b.KilledLanes) && maps.Equal(a.ActiveGroup, b.ActiveGroup)
}
