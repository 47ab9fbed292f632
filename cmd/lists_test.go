package cmd

import (
	"errors"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/whitelist"
)

// A list that cannot be read says why: a route that can be none is its own trouble,
// a registry that is away is everybody's.
func TestHowAListInTheRegistryFails(t *testing.T) {
	c, err := consul.Open(consul.Config{Address: "127.0.0.1:1", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for route, want := range map[string]whitelist.LookupError{
		"shop":   {Kind: whitelist.Unreachable},
		"a/../b": {Kind: whitelist.Broken, Route: true},
	} {
		_, err := registryLists(c)(t.Context(), route)
		var got *whitelist.LookupError
		if !errors.As(err, &got) || got.Kind != want.Kind || got.Route != want.Route {
			t.Errorf("%s: %v", route, err)
		}
	}
}
