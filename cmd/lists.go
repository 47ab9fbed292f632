package cmd

import (
	"context"
	"errors"
	"log/slog"

	"lane/pkg/consul"
	"lane/pkg/rules"
	"lane/pkg/whitelist"

	"github.com/spf13/cobra"
)

// listOptions say where the whitelists of the rules are: in a Redis, else in the
// registry.
type listOptions struct{ redis, prefix string }

func (o *listOptions) flags(c *cobra.Command) {
	addFlag(c, &o.redis, "redis", "", aRedis, "the whitelists' Redis (default: the registry); with a password: LANE_REDIS_URL")
	addFlag(c, &o.prefix, "redis-prefix", whitelist.DefaultPrefix, anyText("PREFIX"), "before the whitelists' keys in Redis")
}

// redisVar names the Redis where its URL holds a password.
const redisVar = "LANE_REDIS_URL"

// url is that of the Redis, empty for none.
func (o *listOptions) url(f *factory) (string, error) {
	given := f.getenv(redisVar)
	if o.redis != "" || given == "" {
		return o.redis, nil
	}
	if err := whitelist.CheckURL(given); err != nil {
		return "", usagef("unset it, or name the server with --redis", redisVar+": %v", err)
	}
	return given, nil
}

// open makes the whitelists of a Redis, or of the registry for an empty URL. It
// asks nothing yet.
func (o *listOptions) open(f *factory, redis string, client *consul.Client) (*whitelist.Whitelist, error) {
	log := f.logger(slog.LevelWarn)
	if redis == "" {
		return whitelist.List(registryLists(client), log), nil
	}
	return whitelist.Redis(whitelist.RedisOptions{URL: redis, Prefix: o.prefix, Logger: log})
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
