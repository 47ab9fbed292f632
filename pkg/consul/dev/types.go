package dev

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Check statuses, as Consul spells them.
const (
	passing  = "passing"
	warning  = "warning"
	critical = "critical"
)

const (
	serfCheckID        = "serfHealth"
	nodeMaintID        = "_node_maintenance"
	serviceMaintPrefix = "_service_maintenance:"
)

// The structs of this file are Consul's wire form and, because filters name
// their fields, its filter language too. Values in the store are immutable: a
// change is a new value.

// ports and proxies of a mesh are not served; these render the empty ones.
type proxyConfig struct {
	Mode        string
	MeshGateway struct{}
	Expose      struct{}
}

type connectConfig struct{}

type weights struct {
	Passing int
	Warning int
}

type serviceAddress struct {
	Address string
	Port    int
}

type node struct {
	ID              string
	Node            string
	Address         string
	Datacenter      string
	TaggedAddresses map[string]string
	Meta            map[string]string
	CreateIndex     uint64 `bexpr:"-"`
	ModifyIndex     uint64 `bexpr:"-"`
}

func (n *node) same(o *node) bool {
	return n.ID == o.ID && n.Node == o.Node && n.Address == o.Address && n.Datacenter == o.Datacenter &&
		maps.Equal(n.TaggedAddresses, o.TaggedAddresses) && maps.Equal(n.Meta, o.Meta)
}

type nodeService struct {
	Kind              string `json:",omitempty"`
	ID                string
	Service           string
	Tags              []string
	Address           string
	TaggedAddresses   map[string]serviceAddress `json:",omitempty"`
	Meta              map[string]string
	Port              int    `json:",omitempty"`
	SocketPath        string `json:",omitempty"`
	Weights           *weights
	EnableTagOverride bool
	Proxy             proxyConfig
	Connect           connectConfig
	PeerName          string
	CreateIndex       uint64 `bexpr:"-"`
	ModifyIndex       uint64 `bexpr:"-"`
}

func (s *nodeService) same(o *nodeService) bool {
	return s.ID == o.ID && s.Service == o.Service && s.Address == o.Address && s.Port == o.Port &&
		s.SocketPath == o.SocketPath && s.EnableTagOverride == o.EnableTagOverride &&
		slices.Equal(s.Tags, o.Tags) && maps.Equal(s.Meta, o.Meta) &&
		maps.Equal(s.TaggedAddresses, o.TaggedAddresses) && *s.Weights == *o.Weights
}

// serviceNode is one row of /v1/catalog/service/:name.
type serviceNode struct {
	ID                       string
	Node                     string
	Address                  string
	Datacenter               string
	TaggedAddresses          map[string]string
	NodeMeta                 map[string]string
	ServiceKind              string
	ServiceID                string
	ServiceName              string
	ServiceTags              []string
	ServiceAddress           string
	ServiceTaggedAddresses   map[string]serviceAddress `json:",omitempty"`
	ServiceWeights           weights
	ServiceMeta              map[string]string
	ServicePort              int
	ServiceSocketPath        string
	ServiceEnableTagOverride bool
	ServiceProxy             proxyConfig
	ServiceConnect           connectConfig
	CreateIndex              uint64 `bexpr:"-"`
	ModifyIndex              uint64 `bexpr:"-"`
}

func newServiceNode(n *node, s *nodeService) *serviceNode {
	return &serviceNode{
		ID: n.ID, Node: n.Node, Address: n.Address, Datacenter: n.Datacenter,
		TaggedAddresses: n.TaggedAddresses, NodeMeta: n.Meta,
		ServiceKind: s.Kind, ServiceID: s.ID, ServiceName: s.Service, ServiceTags: orEmpty(s.Tags),
		ServiceAddress: s.Address, ServiceTaggedAddresses: s.TaggedAddresses, ServiceWeights: *s.Weights,
		ServiceMeta: metaOrEmpty(s.Meta), ServicePort: s.Port, ServiceSocketPath: s.SocketPath,
		ServiceEnableTagOverride: s.EnableTagOverride,
		CreateIndex:              s.CreateIndex, ModifyIndex: s.ModifyIndex,
	}
}

type healthCheck struct {
	Node        string
	CheckID     string
	Name        string
	Status      string
	Notes       string
	Output      string
	ServiceID   string
	ServiceName string
	ServiceTags []string
	Type        string
	Interval    string
	Timeout     string
	ExposedPort int
	Definition  checkDefinition `bexpr:"-"`
	CreateIndex uint64          `bexpr:"-"`
	ModifyIndex uint64          `bexpr:"-"`
}

func (c *healthCheck) same(o *healthCheck) bool {
	return c.Node == o.Node && c.CheckID == o.CheckID && c.Name == o.Name && c.Status == o.Status &&
		c.Notes == o.Notes && c.Output == o.Output && c.ServiceID == o.ServiceID &&
		c.ServiceName == o.ServiceName && slices.Equal(c.ServiceTags, o.ServiceTags) &&
		c.Definition.equal(&o.Definition)
}

// checkDefinition is what a catalog registration says of its own check. The
// registry shows it and never runs it, as the servers of Consul do.
type checkDefinition struct {
	HTTP                           string              `json:",omitempty"`
	TLSServerName                  string              `json:",omitempty"`
	TLSSkipVerify                  bool                `json:",omitempty"`
	Header                         map[string][]string `json:",omitempty"`
	Method                         string              `json:",omitempty"`
	Body                           string              `json:",omitempty"`
	DisableRedirects               bool                `json:",omitempty"`
	TCP                            string              `json:",omitempty"`
	UDP                            string              `json:",omitempty"`
	GRPC                           string              `json:",omitempty"`
	GRPCUseTLS                     bool                `json:",omitempty"`
	OSService                      string              `json:",omitempty"`
	Interval                       duration            `json:",omitempty"`
	Timeout                        duration            `json:",omitempty"`
	DeregisterCriticalServiceAfter duration            `json:",omitempty"`
}

func (d *checkDefinition) equal(o *checkDefinition) bool {
	a, _ := json.Marshal(d)
	b, _ := json.Marshal(o)
	return string(a) == string(b)
}

// UnmarshalJSON lets fields be that nobody knows, here and nowhere else in a
// registration, as Consul does.
func (d *checkDefinition) UnmarshalJSON(data []byte) error {
	type loose checkDefinition
	return json.Unmarshal(data, (*loose)(d))
}

// checkServiceNode is one row of /v1/health/service/:name.
type checkServiceNode struct {
	Node    *node
	Service *nodeService
	Checks  []*healthCheck
}

type dirEntry struct {
	LockIndex   uint64
	Key         string
	Flags       uint64
	Value       []byte
	Session     string `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

type serviceCheck struct {
	ID        string
	Namespace string
}

type session struct {
	ID            string
	Name          string
	Node          string
	LockDelay     time.Duration
	Behavior      string
	TTL           string
	NodeChecks    []string
	ServiceChecks []serviceCheck
	Checks        []string `json:",omitempty"`
	CreateIndex   uint64
	ModifyIndex   uint64
}

// checkIDs are the checks whose failure ends the session.
func (s *session) checkIDs() []string {
	ids := slices.Concat(s.Checks, s.NodeChecks)
	for _, c := range s.ServiceChecks {
		ids = append(ids, c.ID)
	}
	return ids
}

// metaOrEmpty: the catalog shows an instance without metadata as one with none.
func metaOrEmpty(meta map[string]string) map[string]string {
	if meta == nil {
		return map[string]string{}
	}
	return meta
}

// orEmpty keeps a list from being rendered as null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// duration is a time.Duration that is read from "10s" or from integer
// nanoseconds and written as "10s", as Consul does.
type duration time.Duration

func (d duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

func (d *duration) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		parsed, err := time.ParseDuration(v)
		if err != nil {
			return err
		}
		*d = duration(parsed)
	case float64:
		*d = duration(v)
	}
	return nil
}
