package consul_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

func TestSettle(t *testing.T) {
	w := watcher(t, open(t, consultest.Embedded(t)), quick)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if c := w.Catalog(); c.ClaimsUnknown || c.Trust.State != lane.Fresh {
		t.Errorf("settled with %+v", c.Trust)
	}
	// One that nobody answers does not settle, and its wait ends.
	silent := consul.NewWatcher(open(t, closedPort(t)), consul.WatchOptions{})
	gone, stop := context.WithCancel(t.Context())
	stop()
	if err := silent.Settle(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("settled without an answer: %v", err)
	}
}
