package lane

import (
	"testing"
	"time"
)

func TestCatalog(t *testing.T) {
	orders := NewService("orders", []Instance{{ID: "o1", Addr: "10.0.0.1:80"}}, nil)
	c := NewCatalog(Trust{}, nil, Switches{}, orders, NewService("stock", nil, nil))
	if c.Service("orders") != orders || c.Service("nobody") != nil || len(c.Services()) != 2 {
		t.Errorf("services %v", c.Services())
	}
	if name, ok := c.ServiceAt("10.0.0.1:80"); name != "orders" || !ok {
		t.Errorf("at a registered address: %q, %v", name, ok)
	}
	if name, ok := c.ServiceAt("10.0.0.1:81"); ok {
		t.Errorf("at another address: %q", name)
	}
	since := time.Unix(7, 0)
	old := c.WithTrust(Trust{State: Stale, Since: since})
	if c.Trust.State != Fresh || old.Trust.State != Stale || !old.Trust.Since.Equal(since) || old.Service("orders") != orders {
		t.Errorf("trust %+v, before %+v", old.Trust, c.Trust)
	}
	var none *Catalog
	if _, ok := none.ServiceAt("10.0.0.1:80"); ok || none.Service("orders") != nil || none.Services() != nil {
		t.Error("no catalog knows something")
	}
}
