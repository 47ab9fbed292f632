package consul_test

import (
	"errors"
	"strings"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

func TestServicePolicy(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := consultest.Name(t, "orders")
		key := "lane/policy/" + service
		clean := func() {
			if err := c.ClearPolicy(deadline(t), service); err != nil {
				t.Error(err)
			}
		}
		clean() // one that is not there is no error
		t.Cleanup(clean)
		if p, ok, err := c.ServicePolicy(deadline(t), service); ok || err != nil {
			t.Fatalf("there is none, and yet %+v %v", p, err)
		}
		learned := consul.ServicePolicy{Service: service, Mode: consul.ModeIsolated, Caller: "10.0.0.7", By: "alice on desk-1", Since: "then"}
		if written, err := c.LearnPolicy(deadline(t), learned); !written || err != nil {
			t.Errorf("LearnPolicy = %v, %v", written, err)
		}
		if p, ok, err := c.ServicePolicy(deadline(t), service); p != learned || !ok || err != nil {
			t.Errorf("read back: %+v %v %v", p, ok, err)
		}
		set := consul.ServicePolicy{Service: service, Mode: consul.ModeShared, By: "ops", Note: "all callers know lanes"}
		if err := c.SetPolicy(deadline(t), set); err != nil {
			t.Error(err)
		}
		if written, err := c.LearnPolicy(deadline(t), learned); written || err != nil {
			t.Errorf("it was learned over what an operator has set: %v %v", written, err)
		}
		all, bad, err := c.ServicePolicies(deadline(t))
		found := false
		for _, p := range all {
			found = found || p == set
		}
		if !found || len(bad) > 0 || err != nil {
			t.Errorf("ServicePolicies = %+v, %v, %v", all, bad, err)
		}

		consul.PutKey(t, c, key, " isolated\n")
		if p, ok, err := c.ServicePolicy(deadline(t), service); p.Mode != consul.ModeIsolated || !ok || err != nil {
			t.Errorf("a word put by hand: %+v %v %v", p, ok, err)
		}
		for _, junk := range []string{" ", "{}", `{"mode":"public"}`, "publc " + strings.Repeat("x", 1000)} {
			consul.PutKey(t, c, key, junk)
			var none *consul.PolicyError
			if p, ok, err := c.ServicePolicy(deadline(t), service); ok || !errors.As(err, &none) || !strings.Contains(err.Error(), key) || len(err.Error()) > 400 {
				t.Errorf("%.20q: %+v %v %v", junk, p, ok, err)
			}
			if _, bad, err := c.ServicePolicies(deadline(t)); len(bad) != 1 || err != nil {
				t.Errorf("%.20q: bad %v, %v", junk, bad, err)
			}
		}
		for _, p := range []consul.ServicePolicy{{Service: service, Mode: "auto"}, {Service: "Bad_Name", Mode: consul.ModeShared}, {Service: "a/b", Mode: consul.ModeShared}} {
			var invalid *consul.ValidationError
			if err := c.SetPolicy(deadline(t), p); !errors.As(err, &invalid) {
				t.Errorf("SetPolicy(%+v) = %v", p, err)
			}
		}
	})
}
