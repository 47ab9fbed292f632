package cmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// completeURL completes http://SERVICE/ with the services of the registry.
func (f *factory) completeURL(c *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	const noFile = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if strings.HasPrefix(toComplete, "-") || strings.Count(toComplete, "/") > 2 {
		return nil, noFile
	}
	client, err := f.registry()
	if err != nil {
		return nil, noFile
	}
	defer client.Close()
	// A shell that waits for its completion is a shell that hangs.
	ctx, cancel := context.WithTimeout(c.Context(), listLimit)
	defer cancel()
	names, err := client.Services(ctx)
	if err != nil {
		return nil, noFile
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "http://" + n + "/"
	}
	return out, noFile
}
