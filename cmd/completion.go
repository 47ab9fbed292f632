package cmd

import (
	"context"
	"strings"

	"lane/pkg/consul"

	"github.com/spf13/cobra"
)

// serviceNames are the services of the registry; none if it does not answer: a
// completion says nothing, and waits for nothing.
func (f *factory) serviceNames(ctx context.Context) []string {
	client, err := f.registry()
	if err != nil {
		return nil
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	names, err := client.Services(ctx)
	if err != nil {
		return nil
	}
	return names
}

// completeFrom completes what the registry tells, and nothing if it does not.
func (f *factory) completeFrom(c *cobra.Command, read func(context.Context, *consul.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	const noFile = cobra.ShellCompDirectiveNoFileComp
	client, err := f.registry()
	if err != nil {
		return nil, noFile
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.Context(), listLimit)
	defer cancel()
	out, err := read(ctx, client)
	if err != nil {
		return nil, noFile
	}
	return out, noFile
}

// completeFirst is completeFrom for the first argument alone.
func (f *factory) completeFirst(c *cobra.Command, args []string, read func(context.Context, *consul.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.completeFrom(c, read)
}

// completeWords completes a setting with the words that it takes, which are
// looked up when a shell asks and not at the start of every command.
func completeWords(key string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return words(key), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeURL completes http://SERVICE/ with the services of the registry.
func (f *factory) completeURL(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 && args[0] == "--lane" { // lane curl reads its flags itself
		return f.laneNames(c.Context()), cobra.ShellCompDirectiveNoFileComp
	}
	const noFile = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if strings.HasPrefix(toComplete, "-") || strings.Count(toComplete, "/") > 2 {
		return nil, noFile
	}
	names := f.serviceNames(c.Context())
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "http://" + n + "/"
	}
	return out, noFile
}
