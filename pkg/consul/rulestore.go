package consul

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/consul/api"
)

// The keys of the rules. What is proposed and what is active have prefixes of
// their own, so that the registry's access control can give them to two people.
//
//	lane/rules/active/current          which revision holds, and the hash of its document
//	lane/rules/active/revisions/<n>    a revision: written once, never changed
//	lane/rules/proposed/<id>           a proposal; the ID is a hash of what is proposed
//	lane/rules/whitelist/<route>       a list of users, which is edited without a revision
const (
	activePrefix   = rulesPrefix + "active/"
	currentKey     = activePrefix + "current"
	revisionPrefix = activePrefix + "revisions/"
	proposedPrefix = rulesPrefix + "proposed/"
)

const (
	needRulesReads = `key:read on the prefix "lane/rules/"`
	needRules      = `key:write on the prefix "lane/rules/active/", and key:read on "lane/rules/"`
	needProposals  = `key:write on the prefix "lane/rules/proposed/", and key:read on "lane/rules/"`
)

// MaxRules bounds a document, in bytes: with what is said about it, it has to fit
// into one of Consul's transactions.
const MaxRules = 256 << 10

// maxRevision bounds the value of a revision, in which a line's end and a quote
// take two bytes each: in a transaction of 512 KiB it stands as base64.
const maxRevision = 380 << 10

// RuleDraft is a document on its way into the registry.
type RuleDraft struct {
	Document []byte
	Author   string
	Time     string // by the author's own clock: shown, never computed with
	Note     string
	// Base is the revision that the author has seen as the active one, 0 for
	// none: when it is another by now, nothing is written.
	Base int
}

// RuleRevision is one revision of the rules, which never changes.
type RuleRevision struct {
	Revision int
	Author   string
	Time     string // by the author's own clock: shown, never computed with
	Note     string
	SHA256   string // of the document, in hex

	// RollbackOf is the revision whose document this one holds again, 0 if none.
	RollbackOf int
	// Proposal is the ID of the proposal that was approved, and ProposedBy its
	// author, as the proposal says; empty without one.
	Proposal   string
	ProposedBy string

	Document []byte
}

// revisionValue is the wire form of a revision and of a proposal. The number
// and the ID are in the key.
type revisionValue struct {
	Author     string `json:"author"`
	Time       string `json:"time"`
	Note       string `json:"note"`
	Base       int    `json:"base,omitempty"` // of a proposal
	RollbackOf int    `json:"rollback_of,omitempty"`
	Proposal   string `json:"proposal,omitempty"`
	ProposedBy string `json:"proposed_by,omitempty"`
	Document   string `json:"document"`
}

// currentValue is the wire form of the pointer. The hash pins the document: a
// revision that somebody has changed by hand is not the one that was pushed.
type currentValue struct {
	Revision int    `json:"revision"`
	SHA256   string `json:"sha256"`
}

// NoRevisionError says that there is no such revision, or none at all.
type NoRevisionError struct{ Revision int }

func (e *NoRevisionError) Error() string {
	if e.Revision == 0 {
		return "the registry has no rules yet"
	}
	return fmt.Sprintf("the registry has no revision %d of the rules", e.Revision)
}

// BrokenRevisionError says that what is kept of the rules is not what was written.
type BrokenRevisionError struct{ Key, Why string }

func (e *BrokenRevisionError) Error() string {
	return fmt.Sprintf("%s in the registry: %s", e.Key, e.Why)
}

// RulesMovedError says that the active revision is another than the author had
// seen: what was written since would be lost.
type RulesMovedError struct{ Base, Active int }

func (e *RulesMovedError) Error() string {
	base := "there were no rules"
	if e.Base > 0 {
		base = fmt.Sprintf("it was revision %d", e.Base)
	}
	return fmt.Sprintf("revision %d of the rules is active by now; when this began, %s", e.Active, base)
}

// pointer is the pointer to the active revision as it was read.
type pointer struct {
	currentValue
	index uint64 // 0: there is none
}

func decodePointer(p *api.KVPair) (pointer, error) {
	if p == nil {
		return pointer{}, nil
	}
	out := pointer{index: p.ModifyIndex}
	if err := json.Unmarshal(p.Value, &out.currentValue); err != nil || out.Revision < 1 {
		return out, &BrokenRevisionError{Key: currentKey, Why: "it names no revision"}
	}
	return out, nil
}

// getRules reads one key of the rules, nil if it is not there.
func (c *Client) getRules(ctx context.Context, key string) (*api.KVPair, error) {
	var pair *api.KVPair
	err := c.do(ctx, "read the rules", needRulesReads, func(ctx context.Context) (err error) {
		pair, _, err = c.api.KV().Get(key, query(ctx))
		return err
	})
	return pair, err
}

func (c *Client) rulesPointer(ctx context.Context) (pointer, error) {
	pair, err := c.getRules(ctx, currentKey)
	if err != nil {
		return pointer{}, err
	}
	return decodePointer(pair)
}

// ActiveRules returns the active revision; the error is a *NoRevisionError when
// there is none.
func (c *Client) ActiveRules(ctx context.Context) (RuleRevision, error) {
	at, err := c.rulesPointer(ctx)
	if err != nil {
		return RuleRevision{}, err
	}
	if at.index == 0 {
		return RuleRevision{}, &NoRevisionError{}
	}
	return c.pinned(ctx, at)
}

// pinned reads the revision that a pointer names, and holds it to the hash.
func (c *Client) pinned(ctx context.Context, at pointer) (RuleRevision, error) {
	r, err := c.Rules(ctx, at.Revision)
	if err == nil && r.SHA256 != at.SHA256 {
		err = &BrokenRevisionError{Key: revisionKey(at.Revision), Why: "it was changed after it had been pushed"}
	}
	return r, err
}

// Rules returns one revision; the error is a *NoRevisionError when there is none.
func (c *Client) Rules(ctx context.Context, revision int) (RuleRevision, error) {
	pair, err := c.getRules(ctx, revisionKey(revision))
	if err != nil {
		return RuleRevision{}, err
	}
	if pair == nil {
		return RuleRevision{}, &NoRevisionError{Revision: revision}
	}
	return decodeRevision(revision, pair)
}

func decodeRevision(n int, p *api.KVPair) (RuleRevision, error) {
	var v revisionValue
	if err := json.Unmarshal(p.Value, &v); err != nil {
		return RuleRevision{}, &BrokenRevisionError{Key: p.Key, Why: "it is no revision of the rules"}
	}
	return RuleRevision{Revision: n, Author: v.Author, Time: v.Time, Note: v.Note, SHA256: hash(v.Document),
		RollbackOf: v.RollbackOf, Proposal: v.Proposal, ProposedBy: v.ProposedBy, Document: []byte(v.Document)}, nil
}

// RuleHistory returns the newest revisions, the newest first, at most limit of
// them, and which is active, 0 if none.
func (c *Client) RuleHistory(ctx context.Context, limit int) (list []RuleRevision, active int, err error) {
	at, err := c.rulesPointer(ctx)
	if err != nil {
		return nil, 0, err
	}
	numbers, err := c.revisions(ctx)
	if err != nil {
		return nil, 0, err
	}
	slices.Reverse(numbers)
	for _, n := range numbers[:min(limit, len(numbers))] {
		r, err := c.Rules(ctx, n)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, r)
	}
	return list, at.Revision, nil
}

// revisions are the numbers of all revisions, in order.
func (c *Client) revisions(ctx context.Context) ([]int, error) {
	var keys []string
	err := c.do(ctx, "list the revisions of the rules", needRulesReads, func(ctx context.Context) (err error) {
		keys, _, err = c.api.KV().Keys(revisionPrefix, "", query(ctx))
		return err
	})
	var out []int
	for _, k := range keys {
		if n, err := strconv.Atoi(strings.TrimPrefix(k, revisionPrefix)); err == nil && n > 0 && k == revisionKey(n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, err
}

// revisionKey has the number with zeros before it, so that the registry sorts
// the keys by it.
func revisionKey(n int) string { return fmt.Sprintf("%s%08d", revisionPrefix, n) }

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func (v *revisionValue) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people read it with Consul's own tools
	err := e.Encode(v)
	out := bytes.TrimSpace(b.Bytes())
	if err == nil && len(out) > maxRevision {
		err = &ValidationError{Field: "rules", Value: strconv.Itoa(len(out)) + " bytes as the registry keeps it",
			Why: fmt.Sprintf("the registry keeps at most %d", maxRevision), Fix: "a quote and a line's end take two bytes there"}
	}
	return out, err
}

// check holds a draft to what the registry can keep.
func (d *RuleDraft) check() error {
	switch {
	case len(d.Document) > MaxRules:
		return &ValidationError{Field: "rules", Value: strconv.Itoa(len(d.Document)) + " bytes",
			Why: fmt.Sprintf("the registry keeps at most %d", MaxRules), Fix: "long lists of users belong on a whitelist"}
	case !utf8.Valid(d.Document):
		return &ValidationError{Field: "rules", Value: "document", Why: "is no UTF-8 text"}
	case len(d.Author) > 256 || len(d.Note) > 4096:
		return &ValidationError{Field: "note", Value: d.Note[:min(len(d.Note), 32)] + "...", Why: "is too long"}
	}
	return nil
}
