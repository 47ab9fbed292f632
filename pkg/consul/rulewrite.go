package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"
)

// PushRules makes the draft the active revision. A document that is active
// already makes no new one: changed is false then. The error is a
// *RulesMovedError when another revision than the draft's base is active.
func (c *Client) PushRules(ctx context.Context, d RuleDraft) (r RuleRevision, changed bool, err error) {
	return c.pushRules(ctx, d, RuleRevision{})
}

// RollbackRules makes a new revision that holds the document of an old one.
func (c *Client) RollbackRules(ctx context.Context, revision int, d RuleDraft) (r RuleRevision, changed bool, err error) {
	old, err := c.Rules(ctx, revision)
	if err != nil {
		return RuleRevision{}, false, err
	}
	d.Document = old.Document
	return c.pushRules(ctx, d, RuleRevision{RollbackOf: revision})
}

// pushRules writes the next revision and moves the pointer, in one transaction.
// Of origin it takes where the document is from.
func (c *Client) pushRules(ctx context.Context, d RuleDraft, origin RuleRevision) (RuleRevision, bool, error) {
	if err := d.check(); err != nil {
		return RuleRevision{}, false, err
	}
	at, err := c.rulesPointer(ctx)
	var broken *BrokenRevisionError
	if err != nil && !errors.As(err, &broken) { // a broken pointer is mended by a push
		return RuleRevision{}, false, err
	}
	v := revisionValue{Author: d.Author, Time: d.Time, Note: d.Note, RollbackOf: origin.RollbackOf,
		Proposal: origin.Proposal, ProposedBy: origin.ProposedBy, Document: string(d.Document)}
	sum := hash(v.Document)
	if at.Revision > 0 && at.SHA256 == sum {
		if r, err := c.pinned(ctx, at); err == nil {
			return r, false, nil
		} // it was spoiled: written anew, it is what the pointer says
	}
	if broken == nil && at.Revision != d.Base {
		return RuleRevision{}, false, &RulesMovedError{Base: d.Base, Active: at.Revision}
	}
	numbers, err := c.revisions(ctx)
	if err != nil {
		return RuleRevision{}, false, err
	}
	next := at.Revision + 1
	if len(numbers) > 0 { // also those from before somebody deleted the pointer
		next = max(next, numbers[len(numbers)-1]+1)
	}
	value, err := v.encode()
	if err != nil {
		return RuleRevision{}, false, err
	}
	current, err := json.Marshal(currentValue{Revision: next, SHA256: sum})
	if err != nil {
		return RuleRevision{}, false, err
	}
	ok, err := c.txnNeeding(ctx, fmt.Sprintf("write revision %d of the rules", next), needRules,
		&api.KVTxnOp{Verb: api.KVCheckNotExists, Key: revisionKey(next)},
		&api.KVTxnOp{Verb: api.KVSet, Key: revisionKey(next), Value: value},
		&api.KVTxnOp{Verb: api.KVCAS, Key: currentKey, Value: current, Index: at.index})
	if err != nil {
		return RuleRevision{}, false, err
	}
	if !ok { // somebody was faster
		now, err := c.rulesPointer(ctx)
		if err == nil {
			err = &RulesMovedError{Base: at.Revision, Active: now.Revision}
		}
		return RuleRevision{}, false, err
	}
	r, err := decodeRevision(next, &api.KVPair{Key: revisionKey(next), Value: value})
	return r, true, err
}
