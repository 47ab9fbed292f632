package tui

import (
	"context"
	"errors"
	"strings"
	"testing"

	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// headlessRows are rows as they come when there are many at once.
func headlessRows() []traffic.Exchange {
	rows := scene.Exchanges()
	for i := range rows {
		rows[i].ReqHeader, rows[i].ResHeader = traffic.Head{}, traffic.Head{}
	}
	return rows
}

func TestHeadsAreFetchedForWhatIsOpen(t *testing.T) {
	d := &doer{}
	u := newUser(t, 140, 40, doing(d)).status().rows(headlessRows()...)
	u.keys("2").wantScreen("enter shows its headers.", "not:Asking for")
	u.keys("enter").wantScreen("Asking for its headers ...", "not:No header was kept", "not:authorization")
	u.keys("5").wantScreen("Asking for its headers ...", "not:curl -g")
	u.keys("esc").deeds("enter", "2").wantScreen("authorization: Bearer ***", "not:Asking", "not:eyJ")
	u.deeds("3").wantScreen("set-cookie: sid=***", "not:Asking")
	u.deeds("5").wantScreen("curl -g", "Authorization: Bearer ***")

	// Heads that are gone are said to be, and no curl line is made without them.
	d.fail = errors.New("exchange 7 is not kept any more")
	u.keys("esc").deeds("enter", "2").wantScreen("Its headers cannot be had: exchange 7 is not kept any more", "not:Asking")
	u.deeds("5").wantScreen("Its headers cannot be had", "not:curl -g")

	// A row that came with its heads shows them, whatever became of the session.
	u = newUser(t, 140, 40, doing(d)).running()
	u.deeds("enter", "2").wantScreen("authorization: Bearer ***", "not:cannot be had: exchange")
}

func TestExportFetchesHeads(t *testing.T) {
	d := &doer{}
	u := newUser(t, 140, 40, doing(d)).status().rows(headlessRows()...).deeds("e")
	u.wantScreen("secrets masked", "not:not kept any more")
	for _, content := range d.saved {
		if !strings.Contains(content, "Bearer ***") || strings.Contains(content, "eyJ") {
			t.Error("the file has not the heads, masked")
		}
	}
	if len(d.saved) != 1 {
		t.Errorf("saved %d files", len(d.saved))
	}
	gone := &doerWithout{}
	u = newUser(t, 140, 40, func(o *Options) { o.Deeds = gone }).status().rows(headlessRows()...).deeds("e")
	u.wantScreen("secrets masked; the headers of", "are not kept any more")
}

// doerWithout has lost every exchange.
type doerWithout struct{ doer }

func (d *doerWithout) Whole(context.Context, uint64) (traffic.Exchange, error) {
	return traffic.Exchange{}, errors.New("not kept any more")
}
