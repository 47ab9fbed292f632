package consul

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// DestroySession ends a session behind its owner's back.
func DestroySession(ctx context.Context, c *Client, id string) error {
	_, err := c.api.Session().Destroy(id, write(ctx))
	return err
}

// SessionLives reports whether the registry has a session.
func SessionLives(t testing.TB, c *Client, id string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	info, _, err := c.api.Session().Info(id, query(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return info != nil
}

// PutKey writes a key, or deletes it for an empty value.
func PutKey(t testing.TB, c *Client, key, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var err error
	if value == "" {
		_, err = c.api.KV().Delete(key, write(ctx))
	} else {
		_, err = c.api.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, write(ctx))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// RegisterBaseline registers an instance as somebody else would, and removes it
// at the test's end.
func RegisterBaseline(t testing.TB, c *Client, name, id, addr string, port int, meta map[string]string) {
	t.Helper()
	r := &api.AgentServiceRegistration{ID: id, Name: name, Address: addr, Port: port, Meta: meta,
		Check: &api.AgentServiceCheck{CheckID: id + ":ttl", TTL: "5m", Status: api.HealthPassing}}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := c.api.Agent().ServiceRegisterOpts(r, api.ServiceRegisterOpts{ReplaceExistingChecks: true}.WithContext(ctx)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { RemoveBaseline(t, c, id) })
}

// RemoveBaseline removes what RegisterBaseline registered.
func RemoveBaseline(t testing.TB, c *Client, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := c.api.Agent().ServiceDeregisterOpts(id, query(ctx)); err != nil && statusOf(err) != 404 {
		t.Error(err)
	}
}

// SetBaseline sets the health of what RegisterBaseline registered.
func SetBaseline(t testing.TB, c *Client, id, status, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := c.api.Agent().UpdateTTLOpts(id+":ttl", output, status, query(ctx)); err != nil {
		t.Fatal(err)
	}
}

// NextIndex and Pace are the watch's own.
var NextIndex = nextIndex

func PaceOf(n int) (spent time.Duration) {
	p := newPace(time.Second, 30*time.Second)
	begin := time.Now()
	for range n {
		p.wait(context.Background(), nil)
	}
	return time.Since(begin)
}

// IndexOf is the registry's index of a service.
func IndexOf(t testing.TB, c *Client, service string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, meta, err := c.api.Health().Service(service, "", false, query(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return meta.LastIndex
}

func DecodeClaim(key, value string) (lane.Claim, bool) {
	return decodeClaim(&api.KVPair{Key: key, Value: []byte(value)})
}

func EncodeClaim(c lane.Claim) (key, value string) {
	return claimKey(c.Lane, c.Service), string(encodeClaim(c))
}

// Instances is the conversion of what the registry answers.
var Instances = instances

// Heard is what a watch tells its loop.
type Heard struct {
	Start uint64
	Err   error
}

// RunWatch runs a watch whose asks f answers, with an index and a picture, or an
// error.
func RunWatch(ctx context.Context, heard func(Heard), f func(ctx context.Context, index uint64) (uint64, string, error)) (again func() uint64, done <-chan struct{}) {
	w := &watch{key: "stock", index: new(newest), starts: newStarts()}
	out, ended := make(chan event), make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, WatchOptions{}.withDefaults(), func(ctx context.Context, o *api.QueryOptions) (answer, *api.QueryMeta, error) {
			last, picture, err := f(ctx, o.WaitIndex)
			return answer{claims: []lane.Claim{{Owner: picture}}}, &api.QueryMeta{LastIndex: last}, err
		}, out)
		close(out)
	}()
	go func() {
		for e := range out {
			heard(Heard{Start: e.start, Err: e.err})
		}
	}()
	return w.again, ended
}

// OldAfter reports whether a source counts as old after an answer that was asked
// for before the watches started over, and then after one that was asked since.
func OldAfter() (before, since bool) {
	l := &loop{w: NewWatcher(nil, WatchOptions{}), services: map[string]*service{}}
	l.declared = &source{watch: &watch{starts: newStarts()}, answered: true}
	l.switches = &source{watch: &watch{starts: newStarts()}, answered: true}
	l.startOver()
	l.take(event{w: l.declared.watch, start: 0})
	before = l.old(l.declared, time.Now())
	l.take(event{w: l.declared.watch, start: 1})
	return before, l.old(l.declared, time.Now())
}

// DeleteKeys deletes every key below a prefix.
func DeleteKeys(t testing.TB, c *Client, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if _, err := c.api.KV().DeleteTree(prefix, write(ctx)); err != nil {
		t.Fatal(err)
	}
}

// NewToken makes a token with one policy.
func NewToken(t testing.TB, c *Client, name, rules string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if _, _, err := c.api.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, write(ctx)); err != nil {
		t.Fatal(err)
	}
	token, _, err := c.api.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{Name: name}}}, write(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}

// NewTokenFor is NewToken without any right, for a time; 0 is for ever.
func NewTokenFor(t testing.TB, c *Client, life time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	token, _, err := c.api.ACL().TokenCreate(&api.ACLToken{ExpirationTTL: life}, write(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}

// GetKey returns the value of a key.
func GetKey(t testing.TB, c *Client, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	pair, _, err := c.api.KV().Get(key, query(ctx))
	if err != nil || pair == nil {
		t.Fatal(key, err)
	}
	return string(pair.Value)
}

// SetCheck tells the agent the state of a check with a TTL.
func SetCheck(t testing.TB, c *Client, id, status string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := c.api.Agent().UpdateTTLOpts(id, "", status, query(ctx)); err != nil {
		t.Fatal(err)
	}
}

// RegisterElsewhere puts an instance into the catalog that the agent of another node
// would have registered.
func RegisterElsewhere(t testing.TB, c *Client, node string, r Registration, live string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := c.api.Catalog().Register(&api.CatalogRegistration{Node: node, Address: "127.0.0.1",
		Service: &api.AgentService{ID: r.ID, Service: r.Name, Address: r.Address, Port: r.Port, Meta: r.metadata()},
		Check:   &api.AgentCheck{Node: node, CheckID: liveID(r.ID), ServiceID: r.ID, Status: live}}, write(ctx))
	if err != nil {
		t.Fatal(err)
	}
}

// SessionsNamed is how many sessions bear a name.
func SessionsNamed(ctx context.Context, c *Client, name string) (n int, err error) {
	all, _, err := c.api.Session().List(query(ctx))
	for _, s := range all {
		if s.Name == name {
			n++
		}
	}
	return n, err
}
