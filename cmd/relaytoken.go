package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lane/pkg/consul"
	"lane/pkg/printer"
	"lane/pkg/relay"
	"lane/pkg/token"

	"github.com/spf13/cobra"
)

// tokensResult is the JSON form of `lane relay token list`.
type tokensResult struct {
	Schema string     `json:"schema"`
	Tokens []tokenRow `json:"tokens"`
}

type tokenRow struct {
	token.Grant
	State string `json:"state"` // valid | expired | revoked | unknown
}

func newTokenCmd(f *factory) *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens by which laptops come in",
		Long: `Make, list and revoke the tokens by which laptops come in. A token says who its
user is, which services he may claim in which lanes, and when it ends; the relay
checks it with the public key alone. The key that signs is made at the first use, in
lane's state directory, for this user alone; whoever runs a relay elsewhere copies
the public one there (--token-key).`,
		Args: subcommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, sub := range []*cobra.Command{newTokenCreateCmd(f), newTokenListCmd(f), newTokenRevokeCmd(f)} {
		c.AddCommand(sub)
	}
	return c
}

type tokenOptions struct {
	user            string
	lanes, services [][]string
	ttl             time.Duration
	out             string
}

func newTokenCreateCmd(f *factory) *cobra.Command {
	o := &tokenOptions{}
	c := &cobra.Command{
		Use:   "create --user NAME",
		Short: "Make a token, and print it",
		Long: `Make a token, and print it. It is a secret: hand it over as a file with mode 0600
(LANE_RELAY_TOKEN_FILE, or relay_token_file in lane.yaml), or in LANE_RELAY_TOKEN;
never on a command line, which every user of a machine can read. A file that holds
something already is not written over: its token would be good, and in nobody's hands.`,
		Example: `  lane relay token create --user alice --out token
  lane relay token create --user alice --services 'order-service,shop-*' --ttl 4h --out token`,
		Args: takes(),
		RunE: func(*cobra.Command, []string) error { return runTokenCreate(f, o) },
	}
	addFlag(c, &o.user, "user", "", aUser, "name of the user, whom others see as the owner")
	addFlags(c, &o.lanes, "lanes", laneList, "lanes that he may serve: names, or beginnings with -* (default dev-NAME,dev-NAME-*)")
	addFlags(c, &o.services, "services", serviceList, "services that he may claim: names, or beginnings with -* (default *)")
	addFlag(c, &o.ttl, "ttl", "12h", duration(time.Second, token.MaxTTL), "how long it is good")
	addFlag(c, &o.out, "out", "", aNewFile, "file for it, mode 0600, in place of stdout")
	return c
}

func runTokenCreate(f *factory, o *tokenOptions) error {
	if o.user == "" {
		return usagef("lane relay token create --user alice", "--user is missing")
	}
	lanes, services := slices.Concat(o.lanes...), slices.Concat(o.services...)
	if len(lanes) == 0 {
		lanes = token.LanesOf(o.user)
	}
	if len(services) == 0 {
		services = []string{"*"}
	}
	dir, err := f.relayDir()
	if err != nil {
		return err
	}
	now := f.now().Truncate(time.Second).UTC()
	g := token.Grant{ID: token.NewID(), User: o.user, Lanes: lanes, Services: services, Issued: now, Expires: now.Add(o.ttl)}
	if err := g.Check(); err != nil {
		return usagef("--lanes names the lanes", "%v", err)
	}
	k := token.Keeper{Dir: dir}
	key, err := k.Key()
	if err != nil {
		return err
	}
	text, err := token.Sign(key, &g)
	if err != nil {
		return err
	}
	write := func() error { // first noted: one that nobody knows of cannot be revoked
		if err := k.Note(g); err != nil {
			return err
		}
		_, err := fmt.Fprintln(f.io.Out, text)
		return err
	}
	if o.out != "" {
		write = func() error {
			return writeSecret(o.out, text+"\n", func() error { return k.Note(g) })
		}
	}
	if err := write(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(f.io.Err, "lane: token %s of %s: lanes %s; services %s; good until %s\n", g.ID, g.User,
		strings.Join(g.Lanes, ", "), strings.Join(g.Services, ", "), g.Expires.Format(time.RFC3339))
	return err
}

func newTokenListCmd(f *factory) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the tokens made on this machine: what they say, and not themselves",
		Args:  takes(),
		RunE:  func(c *cobra.Command, _ []string) error { return runTokenList(c.Context(), f, asJSON) },
	}
	jsonFlag(c, &asJSON)
	return c
}

func runTokenList(ctx context.Context, f *factory, asJSON bool) error {
	dir, err := f.relayDir()
	if err != nil {
		return err
	}
	all, err := token.Keeper{Dir: dir}.Issued()
	if err != nil {
		return err
	}
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	revoked, away := client.Revocations(ctx)
	res := tokensResult{Schema: "lane.relay-tokens/v1", Tokens: []tokenRow{}}
	for _, g := range all {
		row := tokenRow{g, "valid"}
		_, gone := revoked[g.ID]
		switch {
		case !f.now().Before(g.Expires): // first: that it was revoked as well does not matter any more
			row.State = "expired"
		case gone:
			row.State = "revoked"
		case away != nil:
			row.State = "unknown"
		}
		res.Tokens = append(res.Tokens, row)
	}
	switch {
	case asJSON:
		err = f.printJSON(res)
	case len(all) == 0:
		_, err = fmt.Fprintln(f.io.Err, "no tokens were made on this machine")
	default:
		t := printer.NewTable(f.io, "TOKEN", "USER", "STATE", "LANES", "SERVICES", "UNTIL")
		for _, r := range res.Tokens {
			t.Row(printer.Text(r.ID), printer.Text(r.User), printer.Text(r.State), printer.Text(strings.Join(r.Lanes, ",")),
				printer.Text(strings.Join(r.Services, ",")), printer.Time(f.io, r.Expires))
		}
		err = t.Flush()
	}
	return errors.Join(err, away)
}

func newTokenRevokeCmd(f *factory) *cobra.Command {
	var user string
	c := &cobra.Command{
		Use:   "revoke [TOKEN]... [--user NAME]",
		Short: "Make tokens worthless: every relay turns their laptops out within 5 s",
		Long: `Make tokens worthless, by their IDs or all of a user's that were made on this
machine. Every relay hears of it by the registry, removes what their laptops have
registered, and ends their tunnels. It needs key:write on lane/revoked/ in Consul.
A certificate that a relay takes without a token has its ID, cert-…, in the audit log.`,
		Example: `  lane relay token revoke DMZ7L5QX2C3YQV6T4ABCDEFGHI
  lane relay token revoke --user alice`,
		RunE: func(c *cobra.Command, args []string) error { return runTokenRevoke(c.Context(), f, args, user) },
	}
	addFlag(c, &user, "user", "", aUser, "all of the tokens of this user")
	return c
}

func runTokenRevoke(ctx context.Context, f *factory, ids []string, user string) error {
	if (len(ids) == 0) == (user == "") {
		return usagef("`lane relay token list` shows them", "which? Either tokens, or --user NAME")
	}
	dir, err := f.relayDir()
	if err != nil {
		return err
	}
	all, err := token.Keeper{Dir: dir}.Issued()
	if err != nil {
		return err
	}
	if user != "" {
		for _, g := range all {
			if g.User == user && f.now().Before(g.Expires.Add(time.Minute)) {
				ids = append(ids, g.ID)
			}
		}
		if len(ids) == 0 {
			return &noDataError{msg: "no token of " + user + " is good any more, of those made on this machine", hint: "`lane relay token list` shows them"}
		}
	}
	for _, id := range ids {
		if err := token.CheckID(id); err != nil {
			return usagef("`lane relay token list` shows them", "%v", err)
		}
	}
	s, err := f.settings(given{})
	if err != nil {
		return err
	}
	client, err := consul.Open(f.consulConfig(s))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, id := range ids {
		r := consul.Revocation{ID: id, By: s.Owner, Since: f.now().Format(time.RFC3339), Expires: f.now().Add(token.MaxTTL)}
		if relay.ByCertificate(id) {
			r.Expires = time.Time{} // it is not known, and no relay may take it for over
		}
		i := slices.IndexFunc(all, func(g token.Grant) bool { return g.ID == id })
		if i >= 0 {
			r.User, r.Expires = all[i].User, all[i].Expires
		}
		if err := client.Revoke(ctx, r); err != nil {
			return err
		}
		if i < 0 && !relay.ByCertificate(id) { // a certificate's is made nowhere
			if _, err := fmt.Fprintf(f.io.Err, "lane: no token %s was made on this machine, or it has long ended: it is revoked if one bears that ID; `lane relay token list` shows those made here\n", id); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(f.io.Out, "revoked "+id); err != nil {
			return err
		}
	}
	return f.forgetRevoked(ctx, client)
}

// forgetRevoked removes what was revoked of tokens that have ended long ago by
// themselves.
func (f *factory) forgetRevoked(ctx context.Context, client *consul.Client) error {
	all, err := client.Revocations(ctx)
	if err != nil {
		return err
	}
	for id, r := range all {
		if !r.Expires.IsZero() && f.now().Sub(r.Expires) > 24*time.Hour {
			if err := client.Pardon(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}
