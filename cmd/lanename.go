package cmd

import (
	"errors"
	"os/user"
	"strings"

	"lane/pkg/lane"
)

// readLane is lane.ParseName for a person: of dev, how most lanes begin, the suggestion
// is theirs.
func readLane(s string) (lane.Name, error) {
	name, err := lane.ParseName(s)
	var bad *lane.NameError
	if errors.As(err, &bad) && s == "dev" {
		bad.Suggest = ""
		if u, err := user.Current(); err == nil {
			bad.Suggest = ownLane(u.Username)
		}
	}
	return name, err
}

// ownLane is the name that a user's lane has by custom, or "" if none can be made of
// the user's name.
func ownLane(user string) string {
	if at := strings.LastIndexByte(user, '\\'); at >= 0 {
		user = user[at+1:] // DOMAIN\user
	}
	own := "dev-" + strings.ToLower(user)
	if _, err := lane.ParseName(own); err == nil {
		return own
	}
	var bad *lane.NameError
	if _, err := lane.ParseName(own); errors.As(err, &bad) && strings.HasPrefix(bad.Suggest, "dev-") {
		return bad.Suggest
	}
	return ""
}
