package consul

import (
	"context"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"
)

// whitelistPrefix stands before the route's name in the key of its list, a text.
// Nothing of a revision of the rules is below it.
const whitelistPrefix = rulesPrefix + "whitelist/"

const (
	needWhitelistReads = `key:read on the prefix "lane/rules/whitelist/"`
	needWhitelists     = `key:write on the prefix "lane/rules/whitelist/"`
)

// maxValue is what the registry keeps under one key, in bytes.
const maxValue = 512 << 10

// Whitelist returns a route's list as it stands there, nil if there is none. Any
// server may answer, also while the registry has no leader.
func (c *Client) Whitelist(ctx context.Context, route string) ([]byte, error) {
	if err := checkRoute(route); err != nil {
		return nil, err
	}
	var pair *api.KVPair
	err := c.do(ctx, "read the whitelist "+route, needWhitelistReads, func(ctx context.Context) (err error) {
		o := local(ctx)
		o.AllowStale = true
		pair, _, err = c.api.KV().Get(whitelistPrefix+route, o)
		return err
	})
	if err != nil || pair == nil {
		return nil, err
	}
	return pair.Value, nil
}

// Whitelists returns all lists by their routes.
func (c *Client) Whitelists(ctx context.Context) (map[string][]byte, error) {
	var pairs api.KVPairs
	err := c.do(ctx, "read the whitelists", needWhitelistReads, func(ctx context.Context) (err error) {
		pairs, _, err = c.list(ctx, whitelistPrefix, query(ctx))
		return err
	})
	out := map[string][]byte{}
	for _, p := range pairs {
		if route := strings.TrimPrefix(p.Key, whitelistPrefix); checkRoute(route) == nil {
			out[route] = p.Value
		}
	}
	return out, err
}

// EditWhitelist changes a route's list by compare-and-set. change gets the list,
// nil where there is none, and returns the new one; an empty one goes.
func (c *Client) EditWhitelist(ctx context.Context, route string, change func(old []byte) ([]byte, error)) (changed bool, err error) {
	if err := checkRoute(route); err != nil {
		return false, err
	}
	w := editing{"write the whitelist " + route, whitelistPrefix + route, needWhitelistReads, needWhitelists}
	return c.edit(ctx, w, func(old []byte) ([]byte, error) {
		text, err := change(old)
		if err == nil && len(text) > maxValue {
			err = &ValidationError{Field: "whitelist", Value: strconv.Itoa(len(text)) + " bytes",
				Why: "the registry keeps at most " + strconv.Itoa(maxValue) + " under one key", Fix: "longer lists belong into Redis"}
		}
		return text, err
	})
}

// checkRoute validates a route's name before it becomes part of a URL: it is that
// of the rules, and no way to another key.
func checkRoute(route string) error {
	bad := route == "" || len(route) > maxLabel || strings.IndexByte(":/._-", route[0]) >= 0
	for i := 0; !bad && i < len(route); i++ {
		c := route[i]
		bad = (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(":/._-", c) < 0
	}
	for part := range strings.SplitSeq(route, "/") {
		bad = bad || part == "" || part == "." || part == ".."
	}
	if bad {
		return &ValidationError{Field: "route", Value: route, Why: "is no name of a whitelist: letters, digits and inner : / . _ - only"}
	}
	return nil
}
