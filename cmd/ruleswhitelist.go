package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lane/pkg/consul"
	"lane/pkg/printer"
	"lane/pkg/traffic"
	"lane/pkg/whitelist"

	"github.com/spf13/cobra"
)

// whitelistRecord is the JSON form of one list.
type whitelistRecord struct {
	Schema  string   `json:"schema,omitempty"` // not within a list of them
	Route   string   `json:"route"`
	Users   []string `json:"users"`
	Changed int      `json:"changed"` // users, by this command
}

// whitelistAll is the JSON form of `lane rules whitelist list` without a route.
type whitelistAll struct {
	Schema string            `json:"schema"`
	Lists  []whitelistRecord `json:"lists"` // by route
}

const whitelistSchema = "lane.whitelist/v1"

func newRulesWhitelistCmd(f *factory) *cobra.Command {
	c := &cobra.Command{
		Use:   "whitelist",
		Short: "List and edit the whitelists that are kept in the registry",
		Long: `List and edit the users on the whitelists of the rules, a list for each route. A change
holds within ten seconds at every gateway that has no Redis for them, without a new
revision of the rules. To edit takes a token with the policy lane-whitelist
('lane rules policies').`,
		Example: `  lane rules whitelist add buyer-api buyer-123 buyer-124
  lane rules whitelist remove buyer-api buyer-123
  lane rules whitelist list buyer-api`,
		Args: subcommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	add := newWhitelistEditCmd(f, "add", "Put users on a route's whitelist", whitelist.Add)
	remove := newWhitelistEditCmd(f, "remove", "Take users off a route's whitelist", whitelist.Remove)
	c.AddCommand(newWhitelistListCmd(f), add, remove)
	return c
}

func newWhitelistListCmd(f *factory) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [ROUTE]",
		Short: "List the whitelists, or the users on one",
		Args:  takes("[ROUTE]"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listWhitelists(c.Context(), f, asJSON)
			}
			return listWhitelist(c.Context(), f, args[0], asJSON)
		},
		ValidArgsFunction: f.completeWhitelists,
	}
	jsonFlag(c, &asJSON)
	return c
}

type whitelistEdit func(text []byte, ids ...string) (list []byte, changed int)

func newWhitelistEditCmd(f *factory, verb, short string, edit whitelistEdit) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   verb + " ROUTE USER...",
		Short: short,
		Args:  takes("ROUTE", "USER..."),
		RunE: func(c *cobra.Command, args []string) error {
			return editWhitelist(c.Context(), f, args[0], args[1:], edit, asJSON)
		},
		ValidArgsFunction: f.completeWhitelists,
	}
	jsonFlag(c, &asJSON)
	return c
}

func editWhitelist(ctx context.Context, f *factory, route string, users []string, edit whitelistEdit, asJSON bool) error {
	for _, u := range users {
		if err := whitelist.CheckID(u); err != nil {
			return usagef("an ID is what the identity header of the rules holds", "%q %v", u, err)
		}
	}
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	rec := whitelistRecord{Schema: whitelistSchema, Route: route}
	_, err = client.EditWhitelist(ctx, route, func(old []byte) ([]byte, error) {
		text, changed := edit(old, users...)
		rec.Users, rec.Changed = ids(text), changed
		return text, nil
	})
	if err != nil {
		return err
	}
	if asJSON {
		err = f.printJSON(rec)
	} else {
		_, err = fmt.Fprintf(f.io.Out, "%s: %d changed, %d on the list\n", route, rec.Changed, len(rec.Users))
	}
	if err == nil && len(rec.Users) > 0 {
		f.noteUnasked(ctx, client, route)
	}
	return err
}

// noteUnasked says so when no rule in force asks for a list: it may be a typing error,
// and its users are never colored. Rules that cannot be read are no reason to fail.
func (f *factory) noteUnasked(ctx context.Context, client *consul.Client, route string) {
	set, name, err := activeSet(ctx, client)
	if err != nil || set == nil { // those of a file are not known here
		return
	}
	var asked []string
	for _, r := range set.Rules() {
		if r.Route != "" && !slices.Contains(asked, r.Route) {
			asked = append(asked, r.Route)
		}
	}
	if slices.Contains(asked, route) {
		return
	}
	note := fmt.Sprintf("note: no rule asks for the whitelist %s (%s)", route, name)
	switch near := meant(route, asked); {
	case near != "":
		note += "; did you mean " + near + "?"
	case len(asked) > 0:
		note += "; they ask for " + strings.Join(asked, ", ")
	}
	fmt.Fprintln(f.io.Err, note)
}

// ids are the users of a list, never null in JSON.
func ids(text []byte) []string { return append([]string{}, whitelist.IDs(text)...) }

func listWhitelist(ctx context.Context, f *factory, route string, asJSON bool) error {
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	text, err := client.Whitelist(ctx, route)
	if err != nil {
		return err
	}
	users := ids(text)
	if asJSON {
		return f.printJSON(whitelistRecord{Schema: whitelistSchema, Route: route, Users: users})
	}
	if len(users) == 0 {
		_, err := fmt.Fprintln(f.io.Err, "nobody is on the whitelist "+route)
		return err
	}
	for _, u := range users {
		if _, err := fmt.Fprintln(f.io.Out, traffic.Printable(u)); err != nil {
			return err
		}
	}
	return nil
}

func listWhitelists(ctx context.Context, f *factory, asJSON bool) error {
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	all, err := client.Whitelists(ctx)
	if err != nil {
		return err
	}
	res := whitelistAll{Schema: "lane.whitelists/v1", Lists: []whitelistRecord{}}
	t := printer.NewTable(f.io, "ROUTE", "USERS").Whole()
	for _, route := range slices.Sorted(maps.Keys(all)) {
		users := ids(all[route])
		res.Lists = append(res.Lists, whitelistRecord{Route: route, Users: users})
		t.Row(printer.Text(route), printer.Text(strconv.Itoa(len(users))))
	}
	if asJSON {
		return f.printJSON(res)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(f.io.Err, "no whitelists in the registry")
		return err
	}
	return t.Flush()
}

// completeWhitelists completes the routes that have a list.
func (f *factory) completeWhitelists(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return f.completeFirst(c, args, func(ctx context.Context, client *consul.Client) ([]string, error) {
		all, err := client.Whitelists(ctx)
		return slices.Sorted(maps.Keys(all)), err
	})
}
