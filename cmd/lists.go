package cmd

import (
	"context"
	"errors"
	"log/slog"
	"net/url"

	"lane/pkg/consul"
	"lane/pkg/rules"
	"lane/pkg/whitelist"

	"github.com/spf13/cobra"
)

// listOptions say where the whitelists of the rules are: in a Redis, else in the
// registry.
type listOptions struct{ redis, prefix string }

func (o *listOptions) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.redis, "redis", "", "`URL` of the whitelists' Redis; if secret: LANE_REDIS_URL (without: the registry)")
	c.Flags().StringVar(&o.prefix, "redis-prefix", whitelist.DefaultPrefix, "`PREFIX` of the whitelists' keys in Redis")
}

// url is that of the Redis, empty for none.
func (o *listOptions) url(f *factory) (string, error) {
	if o.redis == "" {
		return f.getenv("LANE_REDIS_URL"), nil
	}
	if u, err := url.Parse(o.redis); err == nil && u.User != nil {
		if _, secret := u.User.Password(); secret {
			return "", usagef("every user of this machine can read a command line: set LANE_REDIS_URL", "--redis has a password in it")
		}
	}
	return o.redis, nil
}

// open makes the whitelists of a Redis, or of the registry for an empty URL. It
// asks nothing yet.
func (o *listOptions) open(f *factory, redis string, client *consul.Client) (*whitelist.Whitelist, error) {
	log := f.logger(slog.LevelWarn)
	if redis == "" {
		return whitelist.List(registryLists(client), log), nil
	}
	list, err := whitelist.Redis(whitelist.RedisOptions{URL: redis, Prefix: o.prefix, Logger: log})
	if err != nil {
		return nil, usagef("", "the Redis of the whitelists: %v", err)
	}
	return list, nil
}

// registryLists reads the lists of a registry, and says how it failed.
func registryLists(client *consul.Client) whitelist.Reader {
	return func(ctx context.Context, route string) ([]byte, error) {
		text, err := client.Whitelist(ctx, route)
		var denied *consul.DeniedError
		var away *consul.UnreachableError
		var name *consul.ValidationError
		switch {
		case errors.As(err, &denied):
			err = &whitelist.LookupError{Kind: whitelist.Denied, Err: err}
		case errors.As(err, &name):
			err = &whitelist.LookupError{Kind: whitelist.Broken, Route: true, Err: err}
		case errors.Is(err, context.DeadlineExceeded): // which an unreachable one is, too
		case errors.As(err, &away):
			err = &whitelist.LookupError{Kind: whitelist.Unreachable, Err: err}
		}
		return text, err
	}
}

// errWhitelist is what the rules are told when nobody knows who is on a list.
var errWhitelist = errors.New("the whitelist does not answer")

// membersOf asks a whitelist for the rules.
func membersOf(ctx context.Context, list *whitelist.Whitelist) rules.Members {
	return func(route, id string) (bool, error) {
		member, known := list.Ask(ctx, route, id)
		if !known {
			return false, errWhitelist
		}
		return member, nil
	}
}
