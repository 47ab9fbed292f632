package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"
)

// RuleProposal is a document that waits for somebody to approve it.
type RuleProposal struct {
	// ID is a hash of the document and its base: whoever approves it approves
	// these bytes, even if somebody writes over the proposal meanwhile.
	ID string
	RuleDraft
}

// NoProposalError says that there is no such proposal.
type NoProposalError struct{ ID string }

func (e *NoProposalError) Error() string { return "the registry has no proposal " + e.ID }

// idLength is 128 bits: fewer, and a proposer could make two documents with one ID.
const idLength = 32

func proposalID(base int, document string) string {
	return hash(fmt.Sprintf("%d\n%s", base, document))[:idLength]
}

// IsProposalID reports whether s has the form of a proposal's ID.
func IsProposalID(s string) bool {
	return len(s) == idLength && strings.Trim(s, "0123456789abcdef") == ""
}

// RulesActiveError says that a document is the active one already.
type RulesActiveError struct{ Revision int }

func (e *RulesActiveError) Error() string {
	return fmt.Sprintf("revision %d of the rules is active already, with this document: there is nothing to propose", e.Revision)
}

// ProposeRules keeps a draft until somebody approves it. The same document on
// the same base is the same proposal: who proposed it first stays its author, and
// made is false. The error is a *RulesActiveError when the document is active.
func (c *Client) ProposeRules(ctx context.Context, d RuleDraft) (p RuleProposal, made bool, err error) {
	if err := d.check(); err != nil {
		return RuleProposal{}, false, err
	}
	at, err := c.rulesPointer(ctx)
	if err != nil {
		return RuleProposal{}, false, err
	}
	if at.Revision > 0 && at.SHA256 == hash(string(d.Document)) {
		if _, err := c.pinned(ctx, at); err == nil {
			return RuleProposal{}, false, &RulesActiveError{Revision: at.Revision}
		} // it was spoiled: approved, it is written anew
	}
	if at.Revision != d.Base {
		return RuleProposal{}, false, &RulesMovedError{Base: d.Base, Active: at.Revision}
	}
	p = RuleProposal{ID: proposalID(d.Base, string(d.Document)), RuleDraft: d}
	v := revisionValue{Author: d.Author, Time: d.Time, Note: d.Note, Base: d.Base, Document: string(d.Document)}
	value, err := v.encode()
	if err != nil {
		return RuleProposal{}, false, err
	}
	for range proposeTries {
		found, err := c.getRules(ctx, proposedPrefix+p.ID)
		if err != nil {
			return RuleProposal{}, false, err
		}
		next := &api.KVPair{Key: proposedPrefix + p.ID, Value: value} // index 0: only if it does not exist
		if found != nil {
			if first, err := decodeProposal(found); err == nil {
				return first, false, nil
			}
			next.ModifyIndex = found.ModifyIndex // it was written over: this sets it right
		}
		err = c.commit(ctx, "propose rules", needProposals, func(ctx context.Context) (err error) {
			made, _, err = c.api.KV().CAS(next, write(ctx))
			return err
		})
		if err != nil || made {
			return p, made, err
		}
	}
	return RuleProposal{}, false, fmt.Errorf("propose rules: others write %s%s again and again", proposedPrefix, p.ID)
}

// proposeTries bounds the tries to be neither first nor overtaken.
const proposeTries = 3

// RuleProposals returns all proposals, as the registry sorts them. One that was
// written over by hand, so that its ID does not fit, is left out.
func (c *Client) RuleProposals(ctx context.Context) ([]RuleProposal, error) {
	var pairs api.KVPairs
	err := c.do(ctx, "read the proposals", needRulesReads, func(ctx context.Context) (err error) {
		pairs, _, err = c.list(ctx, proposedPrefix, query(ctx))
		return err
	})
	var out []RuleProposal
	for _, pair := range pairs {
		if p, err := decodeProposal(pair); err == nil {
			out = append(out, p)
		}
	}
	return out, err
}

// RuleProposal returns one proposal; the error is a *NoProposalError when there
// is none, a *BrokenRevisionError when its ID does not fit.
func (c *Client) RuleProposal(ctx context.Context, id string) (RuleProposal, error) {
	if !IsProposalID(id) {
		return RuleProposal{}, &NoProposalError{ID: id}
	}
	pair, err := c.getRules(ctx, proposedPrefix+id)
	if err != nil {
		return RuleProposal{}, err
	}
	if pair == nil {
		return RuleProposal{}, &NoProposalError{ID: id}
	}
	return decodeProposal(pair)
}

func decodeProposal(p *api.KVPair) (RuleProposal, error) {
	id := strings.TrimPrefix(p.Key, proposedPrefix)
	var v revisionValue
	if json.Unmarshal(p.Value, &v) != nil || proposalID(v.Base, v.Document) != id {
		return RuleProposal{}, &BrokenRevisionError{Key: p.Key, Why: "it is not what was proposed under this ID"}
	}
	return RuleProposal{ID: id, RuleDraft: RuleDraft{Document: []byte(v.Document), Author: v.Author, Time: v.Time,
		Note: v.Note, Base: v.Base}}, nil
}

// ApproveRules makes a proposal the active revision: d is who approves, when and
// why. The error is a *RulesMovedError when another revision has become active
// since it was proposed.
func (c *Client) ApproveRules(ctx context.Context, id string, d RuleDraft) (r RuleRevision, changed bool, err error) {
	p, err := c.RuleProposal(ctx, id)
	if err != nil {
		return RuleRevision{}, false, err
	}
	d.Document, d.Base = p.Document, p.Base
	if d.Note == "" {
		d.Note = p.Note
	}
	return c.pushRules(ctx, d, RuleRevision{Proposal: id, ProposedBy: p.Author})
}

// WithdrawRules removes a proposal; found is false when there was none.
func (c *Client) WithdrawRules(ctx context.Context, id string) (found bool, err error) {
	_, err = c.RuleProposal(ctx, id)
	var none *NoProposalError
	var broken *BrokenRevisionError
	switch {
	case errors.As(err, &none):
		return false, nil
	case err != nil && !errors.As(err, &broken):
		return false, err
	}
	return true, c.commit(ctx, "withdraw a proposal", needProposals, func(ctx context.Context) error {
		_, err := c.api.KV().Delete(proposedPrefix+id, write(ctx))
		return err
	})
}
