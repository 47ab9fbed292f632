package consul_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"lane/pkg/consul"
)

// toBaseline makes a lane's registration one of the baseline's.
func toBaseline(r *consul.Registration) {
	r.Lane, r.Baseline, r.ID = "", true, consul.BaselineID(r.Service, r.Address, r.Port)
}

func TestValidate(t *testing.T) {
	long := strings.Repeat("x", 60)
	meta := func(k, v string) func(*consul.Registration) {
		return func(r *consul.Registration) { r.Meta = map[string]string{k: v} }
	}
	id := func(r *consul.Registration) { r.ID = consul.InstanceID(r.Lane, r.Service, "box") }
	for _, c := range []struct {
		name   string
		change func(*consul.Registration)
		field  string // "" is valid
	}{
		{"as it is", func(*consul.Registration) {}, ""},
		{"isolated", func(r *consul.Registration) { r.Name = consul.IsolatedName(r.Lane, r.Service) }, ""},
		{"IPv6", func(r *consul.Registration) { r.Address = "2001:db8::1" }, ""},
		{"meta", meta("team", "a\nb"), ""},
		{"512 bytes", meta("k", strings.Repeat("x", 512)), ""},
		{"128 characters of a key", meta(strings.Repeat("k", 128), ""), ""},

		{"the baseline", toBaseline, ""},
		{"a baseline with a lane", func(r *consul.Registration) { toBaseline(r); r.Lane = "gray" }, "lane"},
		{"a baseline by a lane's ID", func(r *consul.Registration) { lanes := r.ID; toBaseline(r); r.ID = lanes }, "ID"},
		{"a lane by a baseline's ID", func(r *consul.Registration) { r.ID = consul.BaselineID(r.Service, r.Address, r.Port) }, "ID"},
		{"a baseline by an isolated name", func(r *consul.Registration) { n := consul.IsolatedName(r.Lane, r.Service); toBaseline(r); r.Name = n }, "name in the registry"},

		{"no lane", func(r *consul.Registration) { r.Lane = "" }, "lane"},
		{"reserved lane", func(r *consul.Registration) { r.Lane = "prod" }, "lane"},
		{"baseline", func(r *consul.Registration) { r.Lane = "baseline" }, "lane"},
		{"upper-case lane", func(r *consul.Registration) { r.Lane = "Dev" }, "lane"},
		{"no service", func(r *consul.Registration) { r.Service, r.Name = "", "" }, "service"},
		{"a dot", func(r *consul.Registration) { r.Service, r.Name = "a.b", "a.b" }, "service"},
		{"upper case", func(r *consul.Registration) { r.Service, r.Name = "Orders", "Orders" }, "service"},
		{"an underscore", func(r *consul.Registration) { r.Service, r.Name = "a_b", "a_b" }, "service"},
		{"64 characters", func(r *consul.Registration) { r.Service = strings.Repeat("a", 64); r.Name = r.Service }, "service"},
		{"isolated too long", func(r *consul.Registration) { r.Service = long; id(r); r.Name = consul.IsolatedName(r.Lane, long) }, "name in the registry"},
		{"another's name", func(r *consul.Registration) { r.Name = "inventory" }, "name in the registry"},
		{"another lane's isolated name", func(r *consul.Registration) { r.Name = consul.IsolatedName("dev-bob", r.Service) }, "name in the registry"},
		{"no ID", func(r *consul.Registration) { r.ID = "" }, "ID"},
		{"another lane's ID", func(r *consul.Registration) { r.ID = "lane:dev-bob:" + r.Service + ":box" }, "ID"},
		{"a slash in the ID", func(r *consul.Registration) { r.ID += "/x" }, "ID"},
		{"a quote in the ID", func(r *consul.Registration) { r.ID += `"` }, "ID"},
		{"no address", func(r *consul.Registration) { r.Address = "" }, "address"},
		{"a host name", func(r *consul.Registration) { r.Address = "laptop.local" }, "address"},
		{"unspecified", func(r *consul.Registration) { r.Address = "0.0.0.0" }, "address"},
		{"unspecified IPv6", func(r *consul.Registration) { r.Address = "::" }, "address"},
		{"multicast", func(r *consul.Registration) { r.Address = "224.0.0.1" }, "address"},
		{"a zone", func(r *consul.Registration) { r.Address = "fe80::1%eth0" }, "address"},
		{"port 0", func(r *consul.Registration) { r.Port = 0 }, "port"},
		{"port -1", func(r *consul.Registration) { r.Port = -1 }, "port"},
		{"port 70000", func(r *consul.Registration) { r.Port = 70000 }, "port"},
		{"weight -1", func(r *consul.Registration) { r.Weight = -1 }, "weight"},
		{"an env of two words", func(r *consul.Registration) { r.Env = "a b" }, "env"},
		{"two tenants", func(r *consul.Registration) { r.Tenant = "a,b" }, "tenant"},
		{"a zone and a space", func(r *consul.Registration) { r.Zone = "eu-1 " }, "zone"},
		{"a version of two lines", func(r *consul.Registration) { toBaseline(r); r.Version = "v1\nv2" }, "version"},
		{"words", func(r *consul.Registration) { r.Env, r.Tenant, r.Zone, r.Version = "test", "acme", "eu/1", "1.2+3" }, ""},
		{"a dot in a key", meta("a.b", ""), "metadata key"},
		{"an empty key", meta("", ""), "metadata key"},
		{"a long key", meta(strings.Repeat("k", 129), ""), "metadata key"},
		{"Consul's own key", meta("consul-x", ""), "metadata key"},
		{"a Latin-1 letter", meta("k\xe9", ""), "metadata key"},
		{"513 bytes", meta("k", strings.Repeat("x", 513)), "metadata k"},
		{"too many", func(r *consul.Registration) {
			r.Meta = map[string]string{}
			for i := range 64 {
				r.Meta[fmt.Sprint("k", i)] = ""
			}
		}, "metadata"},
	} {
		r := registration("dev-alice", "orders")
		c.change(&r)
		err := r.Validate()
		var invalid *consul.ValidationError
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field):
			t.Errorf("%s: %v, want the field %q", c.name, err, c.field)
		}
	}
}
