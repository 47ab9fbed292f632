package consul_test

import (
	"context"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

func TestARegistrationMovesToAnotherAddress(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		service, l := unique("orders"), unique("dev-alice")
		h := c.NewHold(registration(l, service), consul.HoldOptions{App: true, Beat: 20 * time.Millisecond})
		at := func() string {
			got := of(t, open(t, addr), lane.Name(l), service)
			if len(got) != 1 {
				t.Fatalf("the catalog shows %v", got)
			}
			return got[0].Addr
		}
		if err := h.Readdress(deadline(t), "127.0.0.2", 8081); err != nil {
			t.Error(err)
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 0 {
			t.Errorf("registered by a move: %v", got)
		}
		if err := h.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		if got := at(); got != "127.0.0.2:8081" {
			t.Errorf("at %s", got)
		}
		if err := h.Readdress(deadline(t), "127.0.0.3", 8082); err != nil {
			t.Error(err)
		}
		if ok, err := h.State(); at() != "127.0.0.3:8082" || !ok || err != nil {
			t.Errorf("at %s, %t %v", at(), ok, err)
		}
		// With the registry away it is left to Run.
		f.cut()
		if err := h.Readdress(deadline(t), "127.0.0.4", 8083); err == nil {
			t.Error("nobody has heard of it")
		}
		if ok, err := h.State(); ok || err == nil {
			t.Errorf("confirmed: %t %v", ok, err)
		}
		f.set(nil)
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		eventually(t, "it is there", func() bool { ok, _ := h.State(); return ok && at() == "127.0.0.4:8083" })
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := h.Deregister(deadline(t)); err != nil {
			t.Error(err)
		}
		if err := h.Readdress(deadline(t), "127.0.0.5", 1); err != nil {
			t.Error(err)
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
	})
}
