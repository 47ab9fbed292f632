package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// revokedPrefix stands before the ID of a relay's token that is worth nothing any
// more.
const revokedPrefix = "lane/revoked/"

const needRevoked = `key:%s on the prefix "lane/revoked/"`

// Revocation says that a token is worth nothing any more.
type Revocation struct {
	ID      string    `json:"-"` // of the token
	User    string    `json:"user,omitempty"`
	By      string    `json:"by,omitempty"`
	Since   string    `json:"since,omitempty"`  // the revoker's own clock, as text: shown only
	Expires time.Time `json:"expires,omitzero"` // when it would have ended by itself; zero is unknown
	// Readable says that the value could be read; what is revoked is so without it.
	Readable bool `json:"-"`

	index uint64 // of its last change
}

// revokedKey is a token's key; the ID comes from a command line.
func revokedKey(id string) (string, error) {
	if id == "" || len(id) > 64 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
		return "", &ValidationError{Field: "token", Value: abridge(id), Why: "is no ID of a token", Fix: "`lane relay token list` shows them"}
	}
	return revokedPrefix + id, nil
}

// Revoke writes that a token is worth nothing. Every relay hears of it.
func (c *Client) Revoke(ctx context.Context, r Revocation) error {
	key, err := revokedKey(r.ID)
	if err != nil {
		return err
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.commit(ctx, "revoke the token", fmt.Sprintf(needRevoked, "write"), func(ctx context.Context) error {
		_, err := c.api.KV().Put(&api.KVPair{Key: key, Value: value}, write(ctx))
		return err
	})
}

// Pardon removes the revocation of a token that has ended by itself long ago.
func (c *Client) Pardon(ctx context.Context, id string) error {
	key, err := revokedKey(id)
	if err != nil {
		return err
	}
	return c.commit(ctx, "remove an old revocation", fmt.Sprintf(needRevoked, "write"), func(ctx context.Context) error {
		_, err := c.api.KV().Delete(key, write(ctx))
		return err
	})
}

// ForgetRevocation removes a revocation that was read, unless it was written anew since;
// it reports whether it did.
func (c *Client) ForgetRevocation(ctx context.Context, r Revocation) (gone bool, err error) {
	key, err := revokedKey(r.ID)
	if err != nil {
		return false, err
	}
	err = c.commit(ctx, "remove an old revocation", fmt.Sprintf(needRevoked, "write"), func(ctx context.Context) (err error) {
		gone, _, err = c.api.KV().DeleteCAS(&api.KVPair{Key: key, ModifyIndex: r.index}, write(ctx))
		return err
	})
	return gone, err
}

// Revocations returns what was revoked, by the tokens' IDs.
func (c *Client) Revocations(ctx context.Context) (map[string]Revocation, error) {
	var pairs api.KVPairs
	err := c.do(ctx, "read the revoked tokens", fmt.Sprintf(needRevoked, "read"), func(ctx context.Context) (err error) {
		pairs, _, err = c.list(ctx, revokedPrefix, query(ctx))
		return err
	})
	return revocations(pairs), err
}

// revocations reads keys. What counts is the key: a value that cannot be read
// revokes all the same.
func revocations(pairs api.KVPairs) map[string]Revocation {
	out := make(map[string]Revocation, len(pairs))
	for _, p := range pairs {
		id := strings.TrimPrefix(p.Key, revokedPrefix)
		if id == "" {
			continue
		}
		var r Revocation
		r.Readable = json.Unmarshal(p.Value, &r) == nil
		r.ID, r.index, r.Expires = id, p.ModifyIndex, r.Expires.UTC() // two of the same are equal
		out[id] = r
	}
	return out
}

// WatchRevocations calls heard with everything that is revoked, at the first
// answer and at each change, until ctx ends; then it returns nil. failed, which may
// be nil, is told each failure of the registry: what was heard goes on until then.
func (c *Client) WatchRevocations(ctx context.Context, heard func(map[string]Revocation), failed func(error)) error {
	var index uint64
	p := newPace(time.Second/4, 2*time.Second) // revoked is to hold within 5 s
	for p.wait(ctx, nil) {
		limit := callTimeout
		if index > 0 {
			limit = defaultWait + defaultWait/16 + 2*callTimeout
		}
		qctx, cancel := context.WithTimeout(ctx, limit)
		q := query(qctx)
		q.WaitIndex, q.WaitTime = index, defaultWait
		pairs, meta, err := c.list(qctx, revokedPrefix, q)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err == nil && meta.ResultsFilteredByACLs {
			err = &DeniedError{What: "watch the revoked tokens", Need: fmt.Sprintf(needRevoked, "read")}
		}
		if err != nil {
			if index = 0; failed != nil {
				failed(c.explain(ctx, "watch the revoked tokens", fmt.Sprintf(needRevoked, "read"), err))
			}
			if !p.failed(ctx, nil) {
				return nil
			}
			continue
		}
		p.succeeded()
		if last := nextIndex(index, meta.LastIndex); last != index || index == 0 {
			heard(revocations(pairs))
			index = last
		}
	}
	return nil
}
