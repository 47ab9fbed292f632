package dev

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// version is the Consul whose behavior is copied.
const version = "1.14.11"

// Options are all optional.
type Options struct {
	// NodeName and Datacenter are what the catalog calls this agent; "dev" and
	// "dc1" if empty.
	NodeName, Datacenter string
	// Address is the node's address in the catalog; 127.0.0.1 if empty. An
	// instance registered without an address is reached there.
	Address string
	// Hosts are names, beyond localhost, loopback addresses and the address that
	// the client connected to, that a request may carry in its Host header.
	Hosts []string
	// ReapEvery is how often critical services are looked over for removal;
	// 30 s if 0, as in Consul.
	ReapEvery time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
}

// Registry is the embedded registry. Its ServeHTTP works by itself; time passes
// for TTLs, checks, sessions and removals only while Run runs.
type Registry struct {
	opts Options
	now  func() time.Time
	mux  *http.ServeMux

	wake chan struct{} // a timer changed
	done chan struct{} // Run has ended
	once sync.Once

	mu    sync.Mutex
	store *store
	agent agent
	news  chan struct{}        // closed at the next change
	ends  map[string]time.Time // session id -> when it expires unrenewed
	seen  map[string]struct{}  // queries that a cache would know
}

var _ http.Handler = (*Registry)(nil)

// New makes a registry with one node, this agent.
func New(o Options) *Registry {
	if o.NodeName == "" {
		o.NodeName = "dev"
	}
	if o.Datacenter == "" {
		o.Datacenter = "dc1"
	}
	if o.Address == "" {
		o.Address = "127.0.0.1"
	}
	if o.ReapEvery == 0 {
		o.ReapEvery = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Registry{
		opts:  o,
		now:   o.Now,
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
		store: newStore(),
		agent: agent{id: newUUID(), services: map[string]*nodeService{}, checks: map[string]*agentCheck{}},
		news:  make(chan struct{}),
		ends:  map[string]time.Time{},
		seen:  map[string]struct{}{},
	}
	r.mux = r.routes()
	r.bootstrap()
	return r
}

// bootstrap writes what a server writes of itself.
func (r *Registry) bootstrap() {
	reg := r.self()
	reg.Service = &nodeService{
		ID: "consul", Service: "consul", Tags: []string{}, Port: 8300,
		Meta: map[string]string{
			"non_voter": "false", "raft_version": "3", "read_replica": "false",
			"serf_protocol_current": "2", "serf_protocol_max": "5", "serf_protocol_min": "1",
			"version": version,
		},
		Weights: &weights{1, 1},
	}
	reg.Checks = []*healthCheck{{
		Node: r.opts.NodeName, CheckID: serfCheckID, Name: "Serf Health Status",
		Status: passing, Output: "Agent alive and reachable",
	}}
	r.store.index = 13
	if err := r.store.register(13, r.now(), reg); err != nil {
		panic("dev: cannot register this agent: " + err.Error()) // cannot be: the node is in the same request
	}
}

// self is this agent's part of each registration that it writes.
func (r *Registry) self() *catalogRegistration {
	return &catalogRegistration{
		ID: r.agent.id, Node: r.opts.NodeName, Address: r.opts.Address, Datacenter: r.opts.Datacenter,
		TaggedAddresses: map[string]string{
			"lan": r.opts.Address, "lan_ipv4": r.opts.Address, "wan": r.opts.Address, "wan_ipv4": r.opts.Address,
		},
		NodeMeta: map[string]string{"consul-network-segment": ""},
	}
}

// write runs change with a fresh index, under the lock, and wakes the readers.
// change checks before it writes: one that fails has changed nothing.
func (r *Registry) write(change func(s *store, idx uint64) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writeLocked(change)
}

func (r *Registry) writeLocked(change func(s *store, idx uint64) error) error {
	r.store.index++
	if err := change(r.store, r.store.index); err != nil {
		return err
	}
	r.changed()
	return nil
}

// register applies a catalog registration as one change, all or nothing.
func (r *Registry) register(reg *catalogRegistration) error {
	r.store.index++
	draft := r.store.clone()
	if err := draft.register(draft.index, r.now(), reg); err != nil {
		return err
	}
	r.store = draft
	r.changed()
	return nil
}

// changed wakes every blocking query; it runs with the lock held.
func (r *Registry) changed() {
	close(r.news)
	r.news = make(chan struct{})
}

// poke makes Run look at its timers again.
func (r *Registry) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

var errRunning = errors.New("dev: Run was called before")

// Run lets time pass: TTL checks expire, HTTP and TCP checks are made, services
// that are critical for too long are removed, sessions end. It returns nil when
// ctx ends, after every probe has ended and every waiting query has been let go.
// It can be called once.
func (r *Registry) Run(ctx context.Context) error {
	err := errRunning
	r.once.Do(func() {
		defer close(r.done)
		r.keepTime(ctx)
		err = nil
	})
	return err
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !r.hostAllowed(req) {
		writeText(w, http.StatusForbidden, "Host "+printable(req.Host)+" is not this registry's. Use localhost or an address of this machine.")
		return
	}
	if strings.ContainsFunc(req.URL.Path, func(c rune) bool { return !unicode.IsPrint(c) }) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mux.ServeHTTP(w, req)
}

// hostAllowed keeps a web page in the user's browser from using the registry
// under a name of its own that resolves to this machine.
func (r *Registry) hostAllowed(req *http.Request) bool {
	host := req.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if slices.ContainsFunc(r.opts.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if ip.Unmap().IsLoopback() {
		return true
	}
	if local, ok := req.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if own, err := netip.ParseAddrPort(local.String()); err == nil {
			return own.Addr().Unmap() == ip.Unmap()
		}
	}
	return false
}

func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, s)
}
