package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const maxTxnOps = 128

type txnOp struct {
	KV      *txnKV
	Node    *txnNode
	Service *txnService
	Check   *txnCheck
}

type txnKV struct {
	Verb      string
	Key       string
	Value     []byte
	Flags     uint64
	Index     uint64
	Session   string
	Namespace string
	Partition string
}

// Of the catalog, transactions only read here. Its fields are the names that
// find it; the rest of what a client sends is ignored.
type txnNode struct {
	Verb string
	Node struct{ Node string }
}

type txnService struct {
	Verb    string
	Node    string
	Service struct{ ID string }
}

type txnCheck struct {
	Verb  string
	Check struct{ Node, CheckID string }
}

type txnResult struct {
	KV      *dirEntry    `json:",omitempty"`
	Node    *node        `json:",omitempty"`
	Service *nodeService `json:",omitempty"`
	Check   *healthCheck `json:",omitempty"`
}

type txnError struct {
	OpIndex int
	What    string
}

type txnResponse struct {
	Results []txnResult
	Errors  []txnError
}

// txnReadResponse is Consul's answer to a transaction that only reads; the
// fields after the errors are an accident of its encoding.
type txnReadResponse struct {
	txnResponse
	Index                 uint64
	LastContact           int
	KnownLeader           bool
	ConsistencyLevel      string
	NotModified           bool
	Backend               int
	ResultsFilteredByACLs bool
}

var (
	kvWrites = []string{"set", "delete", "delete-cas", "delete-tree", "cas", "lock", "unlock"}
	// These may name no key; every other verb must.
	kvKeyless = []string{"delete-tree"}
)

func (op *txnOp) writes() bool {
	switch {
	case op.KV != nil:
		return slices.Contains(kvWrites, op.KV.Verb)
	case op.Node != nil:
		return op.Node.Verb != "get"
	case op.Service != nil:
		return op.Service.Verb != "get"
	case op.Check != nil:
		return op.Check.Verb != "get"
	}
	return false
}

func (r *Registry) txn(w http.ResponseWriter, req *http.Request) (any, error) {
	if req.ContentLength > maxKVValue {
		return nil, failf(http.StatusRequestEntityTooLarge,
			"Request body(%d bytes) too large, max size: %d bytes. See https://www.consul.io/docs/agent/config/config-files#txn_max_req_len.",
			req.ContentLength, maxKVValue)
	}
	var ops []txnOp
	// Strict at the top only: what the catalog verbs carry is read by name.
	if err := decodeTxn(req, &ops); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, failf(http.StatusRequestEntityTooLarge,
				"Request body too large, max size: %d bytes. See https://www.consul.io/docs/agent/config/config-files#txn_max_req_len.", maxKVValue)
		}
		return nil, failf(http.StatusBadRequest, "Failed to parse body: %v", err)
	}
	if len(ops) > maxTxnOps {
		return nil, failf(http.StatusRequestEntityTooLarge, "Transaction contains too many operations (%d > %d)", len(ops), maxTxnOps)
	}
	write := slices.ContainsFunc(ops, func(op txnOp) bool { return op.writes() })
	if !write {
		if _, err := r.query(req); err != nil {
			return nil, err
		}
	}

	answer := r.runTxn(ops, write)
	code := http.StatusOK
	if len(answer.Errors) > 0 {
		code = http.StatusConflict
	}
	if write {
		return answer, codeError{code}
	}
	read := txnReadResponse{txnResponse: *answer}
	if !answer.rejected() {
		read.Index, read.KnownLeader = 1, true
	}
	w.Header().Set("X-Consul-LastContact", "0")
	w.Header().Set("X-Consul-KnownLeader", strconv.FormatBool(read.KnownLeader))
	return read, codeError{code}
}

// rejected: the operations were not even tried.
func (t *txnResponse) rejected() bool {
	return slices.ContainsFunc(t.Errors, func(e txnError) bool { return e.What == errNoKey.Error() })
}

func decodeTxn(req *http.Request, ops *[]txnOp) error {
	var raw []map[string]json.RawMessage
	if err := json.NewDecoder(http.MaxBytesReader(nil, req.Body, maxKVValue)).Decode(&raw); err != nil {
		return err
	}
	for _, m := range raw {
		for key := range m {
			if !slices.Contains([]string{"kv", "node", "service", "check"}, lower(key)) {
				return fmt.Errorf("json: unknown field %q", key)
			}
		}
		data, err := json.Marshal(m)
		if err != nil {
			return err
		}
		var op txnOp
		if err := json.Unmarshal(data, &op); err != nil {
			return err
		}
		if op != (txnOp{}) {
			*ops = append(*ops, op)
		}
	}
	return nil
}

var errNoKey = say("Must provide key")

func (r *Registry) runTxn(ops []txnOp, write bool) *txnResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	answer := &txnResponse{}
	fail := func(i int, err error) {
		answer.Errors = append(answer.Errors, txnError{i, err.Error()})
	}
	for i, op := range ops {
		if op.KV == nil {
			continue
		}
		if op.KV.Key == "" && !slices.Contains(kvKeyless, op.KV.Verb) {
			fail(i, errNoKey)
		} else if op.KV.Verb == "lock" && r.store.lockDelay[op.KV.Key].After(now) {
			fail(i, fmt.Errorf("failed to lock key %q due to lock delay", op.KV.Key))
		}
	}
	if len(answer.Errors) > 0 {
		return answer
	}

	draft := r.store.clone()
	if write {
		draft.index++
	}
	answer.Results = []txnResult{}
	for i, op := range ops {
		results, err := draft.txnOp(draft.index, now, &op)
		if err != nil {
			fail(i, err)
		}
		answer.Results = append(answer.Results, results...)
	}
	switch {
	case len(answer.Errors) > 0:
		answer.Results = nil
		if write {
			r.store.index++
		}
	case write:
		r.store = draft
		r.changed()
	}
	return answer
}

func (s *store) txnOp(idx uint64, now time.Time, op *txnOp) ([]txnResult, error) {
	switch {
	case op.KV != nil:
		return s.txnKV(idx, now, op.KV)
	case op.Node != nil && op.Node.Verb == "get":
		if n := s.nodes[lower(op.Node.Node.Node)]; n != nil {
			return []txnResult{{Node: n}}, nil
		}
		return nil, fmt.Errorf("node %q doesn't exist", op.Node.Node.Node)
	case op.Service != nil && op.Service.Verb == "get":
		if svc := s.services[serviceKey{lower(op.Service.Node), lower(op.Service.Service.ID)}]; svc != nil {
			return []txnResult{{Service: svc}}, nil
		}
		return nil, fmt.Errorf("service %q on node %q doesn't exist", op.Service.Service.ID, op.Service.Node)
	case op.Check != nil && op.Check.Verb == "get":
		if c := s.checks[checkKey{lower(op.Check.Check.Node), lower(op.Check.Check.CheckID)}]; c != nil {
			return []txnResult{{Check: c}}, nil
		}
		return nil, fmt.Errorf("check %q on node %q doesn't exist", op.Check.Check.CheckID, op.Check.Check.Node)
	case op.Node != nil || op.Service != nil || op.Check != nil:
		return nil, errors.New("this registry changes its catalog through /v1/catalog and /v1/agent only, not in transactions")
	}
	return nil, errors.New("no operation specified")
}

func (s *store) txnKV(idx uint64, now time.Time, op *txnKV) ([]txnResult, error) {
	e := dirEntry{Key: op.Key, Value: op.Value, Flags: op.Flags, Session: op.Session}
	old := s.kv[op.Key]
	var entry *dirEntry
	var ok bool
	var err error
	switch op.Verb {
	case "set":
		entry = s.put(idx, e)
	case "delete":
		s.deleteKey(idx, now, op.Key)
		return nil, nil
	case "delete-tree":
		s.deleteTree(idx, now, op.Key)
		return nil, nil
	case "delete-cas":
		if !s.deleteCAS(idx, op.Index, now, op.Key) {
			return nil, fmt.Errorf("failed to delete key %q, index is stale", op.Key)
		}
		return nil, nil
	case "cas":
		if entry, ok = s.cas(idx, op.Index, e); !ok {
			err = fmt.Errorf("failed to set key %q, index is stale", op.Key)
		}
	case "lock":
		if entry, ok, err = s.lock(idx, e); !ok && err == nil {
			err = fmt.Errorf("failed to lock key %q, lock is already held", op.Key)
		}
	case "unlock":
		if entry, ok, err = s.unlock(idx, e); !ok && err == nil {
			err = fmt.Errorf("failed to unlock key %q, lock isn't held, or is held by another session", op.Key)
		}
	case "get":
		if old == nil {
			return nil, fmt.Errorf("key %q doesn't exist", op.Key)
		}
		return []txnResult{{KV: old}}, nil
	case "get-or-empty":
		if old == nil {
			e.Value = nil
			old = &e
		}
		return []txnResult{{KV: old}}, nil
	case "get-tree":
		var results []txnResult
		entries, _ := s.list(op.Key)
		for _, e := range entries {
			results = append(results, txnResult{KV: e})
		}
		return results, nil
	case "check-session":
		switch {
		case old == nil:
			err = fmt.Errorf("failed to check session, key %q doesn't exist", op.Key)
		case old.Session != op.Session:
			err = fmt.Errorf("failed session check for key %q, current session %q != %q", op.Key, old.Session, op.Session)
		}
		entry = old
	case "check-index":
		switch {
		case old == nil:
			err = fmt.Errorf("failed to check index, key %q doesn't exist", op.Key)
		case old.ModifyIndex != op.Index:
			err = fmt.Errorf("failed index check for key %q, current modify index %d != %d", op.Key, old.ModifyIndex, op.Index)
		}
		entry = old
	case "check-not-exists":
		if old != nil {
			return nil, fmt.Errorf("key %q exists", op.Key)
		}
		return nil, nil
	default:
		err = fmt.Errorf("unknown KV verb %q", op.Verb)
	}
	if err != nil {
		return nil, err
	}
	// Values are shown by the reading verbs only.
	shown := *entry
	shown.Value = nil
	return []txnResult{{KV: &shown}}, nil
}
