package demo

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"lane/pkg/consul"
)

// The lanes: two developers' and the next edition of a service.
const (
	laneAlice = "dev2" // her user name in the shop, too
	laneBob   = "dev3"
	laneNext  = "canary"
)

// What the rules go by.
const (
	userCookie   = "user"
	testerHeader = "X-Tester"
	shareRule    = "share-of-users"
	sharePercent = 5
	morePercent  = 50
)

// document is the bookshop's rules, with a share of the users in lane canary.
func document(percent int) string {
	return fmt.Sprintf(`# The rules of the bookshop: which requests belong to which lane.
entry: %s
rules:
  - id: developer                # a cookie
    priority: 10
    match: { cookie: { name: %s, exact: %s } }
    lane: %s
  - id: tester                   # a header
    priority: 20
    match: { header: { name: %s, exact: bob } }
    lane: %s
  - id: preview                  # a parameter of the query
    priority: 30
    match: { query: { name: preview, exact: ratings } }
    lane: %s
  - id: %s           # a share of all users, always the same ones
    priority: 40
    percent: %d
    key: { cookie: %s }
    lane: %s
`, productpage, userCookie, laneAlice, laneAlice, testerHeader, laneBob, laneBob, shareRule, percent, userCookie, laneNext)
}

// inShare is what docs/rules.md says of a percentage, written once more: the
// demo holds the gateway to it.
func inShare(user string, percent int) bool {
	sum := sha256.Sum256([]byte(shareRule + "|" + user))
	return binary.BigEndian.Uint64(sum[:8])%10_000 < uint64(percent)*100
}

// users are enough of them for a share to be seen.
const users = 100

func user(n int) string { return fmt.Sprintf("u-%d", n) }

// shareOf are the users that the hash names.
func shareOf(percent int) []string {
	var in []string
	for n := 1; n <= users; n++ {
		if inShare(user(n), percent) {
			in = append(in, user(n))
		}
	}
	return in
}

// notIn is a user who is in no share yet.
func notIn(percent int) string {
	for n := 1; ; n++ {
		if !inShare(user(n), percent) {
			return user(n)
		}
	}
}

// push makes a document the active rules, as `lane rules push` does.
func (w *World) push(ctx context.Context, doc, note string) (int, error) {
	base, err := w.active(ctx)
	if err != nil {
		return 0, err
	}
	r, _, err := w.client.PushRules(ctx, w.draft(base, doc, note))
	return r.Revision, err
}

// active is the number of the active revision, 0 if there is none.
func (w *World) active(ctx context.Context) (int, error) {
	r, err := w.client.ActiveRules(ctx)
	var none *consul.NoRevisionError
	if errors.As(err, &none) {
		err = nil
	}
	return r.Revision, err
}

func (w *World) draft(base int, doc, note string) consul.RuleDraft {
	return consul.RuleDraft{Document: []byte(doc), Author: "demo", Time: w.o.Now().UTC().Format(time.RFC3339), Note: note, Base: base}
}

// Try is one thing to do while the demo runs, and what is to be seen then.
type Try struct {
	Command string
	What    string
}

// Shop is the address of the bookshop, for a browser.
func (w *World) Shop() string { return w.entry + "/" }

// Try is what can be done from another terminal. Each command works as it stands.
func (w *World) Try() []Try {
	lane := w.o.Program
	if lane == "" {
		lane = "lane"
	}
	return []Try{
		{"export CONSUL_HTTP_ADDR=" + w.address, "the demo's registry"},
		{lane + " rules push " + w.moreRules() + " --wait 10s", fmt.Sprintf("%d %% of the users get the next details, not %d %%", morePercent, sharePercent)},
		{lane + " rules history", ""},
		{lane + " rules rollback 1", "the first rules again"},
		{lane + " kill " + laneAlice, "lane " + laneAlice + " off: the baseline serves it"},
		{lane + " unkill " + laneAlice, "and on again"},
		{lane + " top", "lanes beside the baseline, service by service"},
		{"curl -H '" + testerHeader + ": bob' " + w.Shop(), "colored by a header, which no link can send"},
	}
}

// moreRules is the file of a document to push.
func (w *World) moreRules() string { return filepath.Join(w.dir, "rules.yaml") }
