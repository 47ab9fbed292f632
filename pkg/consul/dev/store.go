package dev

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

type serviceKey struct{ node, id string }

type checkKey struct{ node, id string }

// store is the catalog, the key-value tree and the sessions, with the indexes
// that blocking queries compare. It is a plain value under its owner's lock.
// Keys of the catalog are lower case: Consul finds "WEB" when asked for "web".
type store struct {
	index uint64 // of the last write, applied or not

	nodes    map[string]*node
	services map[serviceKey]*nodeService
	checks   map[checkKey]*healthCheck

	nodesIndex    uint64
	servicesIndex uint64
	checksIndex   uint64
	nodeIndex     map[string]uint64 // by node: the node and its services
	serviceIndex  map[string]uint64 // by name, while an instance exists
	eventIndex    map[string]uint64 // by name, also after the last instance left
	extinction    uint64            // last time that any service lost its last instance
	nodeGone      uint64            // last time that any node was removed

	kv         map[string]*dirEntry
	kvIndex    uint64
	tombstones map[string]tombstone
	lockDelay  map[string]time.Time // by key

	sessions      map[string]*session
	sessionsIndex uint64
}

type tombstone struct {
	index uint64
	at    time.Time
}

func newStore() *store {
	return &store{
		nodes:        map[string]*node{},
		services:     map[serviceKey]*nodeService{},
		checks:       map[checkKey]*healthCheck{},
		nodeIndex:    map[string]uint64{},
		serviceIndex: map[string]uint64{},
		eventIndex:   map[string]uint64{},
		kv:           map[string]*dirEntry{},
		tombstones:   map[string]tombstone{},
		lockDelay:    map[string]time.Time{},
		sessions:     map[string]*session{},
	}
}

// clone is what a write that may fail half-way works on; the values are
// immutable and shared.
func (s *store) clone() *store {
	c := *s
	c.nodes = maps.Clone(s.nodes)
	c.services = maps.Clone(s.services)
	c.checks = maps.Clone(s.checks)
	c.nodeIndex = maps.Clone(s.nodeIndex)
	c.serviceIndex = maps.Clone(s.serviceIndex)
	c.eventIndex = maps.Clone(s.eventIndex)
	c.kv = maps.Clone(s.kv)
	c.tombstones = maps.Clone(s.tombstones)
	c.lockDelay = maps.Clone(s.lockDelay)
	c.sessions = maps.Clone(s.sessions)
	return &c
}

// forget drops what only serves queries that ended long ago.
func (s *store) forget(now time.Time) {
	maps.DeleteFunc(s.tombstones, func(_ string, t tombstone) bool { return now.Sub(t.at) > tombstoneTTL })
	maps.DeleteFunc(s.lockDelay, func(_ string, until time.Time) bool { return !until.After(now) })
	maps.DeleteFunc(s.eventIndex, func(name string, _ uint64) bool {
		_, live := s.serviceIndex[name]
		return !live && len(s.eventIndex) > maxGoneServices
	})
}

const (
	tombstoneTTL    = 15 * time.Minute // Consul's default
	maxGoneServices = 4096
)

func lower(s string) string { return strings.ToLower(s) }

func sortedValues[K comparable, V any](m map[K]V, keep func(V) bool, order func(a, b V) int) []V {
	var out []V
	for _, v := range m {
		if keep(v) {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, order)
	return out
}

func byCheckID(a, b *healthCheck) int {
	return cmp.Or(cmp.Compare(lower(a.Node), lower(b.Node)), cmp.Compare(lower(a.CheckID), lower(b.CheckID)))
}
