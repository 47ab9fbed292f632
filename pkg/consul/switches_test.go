package consul_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// logged keeps what a watcher logs.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// errors counts the lines of the error level that have all of these in them.
func (l *logged) errors(parts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, "level=ERROR") && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			n++
		}
	}
	return n
}

func watchLogged(t *testing.T, c *consul.Client) (*consul.Watcher, *logged) {
	t.Helper()
	log := &logged{}
	w := watcher(t, c, consul.WatchOptions{Log: slog.New(slog.NewTextHandler(log, nil))})
	need(t, w, unique("stock"))
	return w, log
}

var unreadableKills = []struct{ value, why string }{
	{`garbage{`, "invalid character"},
	{`{"all":"yes"}`, "all is a string"},
	{`{"all":true,"lanes":"dev2"}`, "lanes is a string"},
	{`{"lane":["dev2"]}`, "unknown field"},
	{`{"all":false} {"all":true}`, "something follows"},
	{`null`, "no object"},
	{`["dev2"]`, "array"},
	{` `, "empty"},
}

// A value that nobody can read changes nothing in a running router, and kills all in
// one that starts by it; one that can be read does what it says in both.
func TestAKillSwitchThatCannotBeRead(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutKills(t, c)
		running, log := watchLogged(t, c)
		sw := func() *lane.Switches { return &running.Catalog().Switches }
		for _, bad := range unreadableKills {
			consul.PutKey(t, c, "lane/switches/kill", `{"lanes":["dev2"]}`)
			eventually(t, "dev2 is killed", func() bool { return sw().Killed("dev2") })
			before := log.errors()
			consul.PutKey(t, c, "lane/switches/kill", bad.value)
			eventually(t, bad.value+" is logged", func() bool {
				if !sw().Killed("dev2") {
					t.Fatalf("%s: %+v", bad.value, sw())
				}
				return log.errors() > before
			})
			// The value that holds is the one before, and not all.
			if sw().Killed("dev3") || log.errors() != before+1 || log.errors("lane/switches/kill", "what was last read holds") == 0 {
				t.Errorf("%s: %+v, logged %d times", bad.value, sw(), log.errors()-before)
			}
			var why *consul.UnreadableSwitchError
			if _, err := c.Switches(deadline(t)); !errors.As(err, &why) || why.Value != bad.value || !strings.Contains(why.Why, bad.why) {
				t.Errorf("%s: %v", bad.value, err)
			}
			starting, first := watchLogged(t, c)
			if !starting.Catalog().Switches.Killed("dev2") || !starting.Catalog().Switches.KillAll || first.errors("all lanes are killed") != 1 {
				t.Errorf("%s: one that starts has %+v", bad.value, starting.Catalog().Switches)
			}
			// The twin.
			consul.PutKey(t, c, "lane/switches/kill", `{"lanes":["dev3"]}`)
			eventually(t, "what can be read holds everywhere", func() bool {
				a, b := sw(), &starting.Catalog().Switches
				return a.Killed("dev3") && !a.Killed("dev2") && b.Killed("dev3") && !b.KillAll
			})
		}
		// One that could be read, and was removed: that is readable, too.
		consul.PutKey(t, c, "lane/switches/kill", "")
		eventually(t, "nothing is killed", func() bool { return !sw().Killed("dev3") })
		consul.PutKey(t, c, "lane/switches/kill", "nonsense")
		eventually(t, "logged", func() bool { return log.errors("nonsense") == 1 })
		if sw().KillAll {
			t.Error("nothing was killed, and now all are")
		}
	})
}

// No command writes over what it cannot read, but with force.
func TestWritesOverASwitchThatCannotBeRead(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutKills(t, c)
		key, service := "lane/switches/kill", unique("orders")
		group := "lane/switches/active/" + service
		t.Cleanup(func() { consul.PutKey(t, c, group, "") })
		edit := func(f func(context.Context, lane.Name, bool, bool) (lane.Switches, bool, error), l lane.Name, all, force bool) (lane.Switches, bool, error) {
			return f(deadline(t), l, all, force)
		}
		for _, bad := range unreadableKills {
			consul.PutKey(t, c, key, bad.value)
			for _, f := range []func(context.Context, lane.Name, bool, bool) (lane.Switches, bool, error){c.Kill, c.Unkill} {
				for _, all := range []bool{false, true} {
					var why *consul.UnreadableSwitchError
					if _, changed, err := edit(f, "dev2", all, false); changed || !errors.As(err, &why) || why.Key != key || why.Value != bad.value {
						t.Errorf("%s: %v %v", bad.value, changed, err)
					}
				}
			}
			if got := consul.GetKey(t, c, key); got != bad.value {
				t.Errorf("%s was written over: %s", bad.value, got)
			}
			if got, changed, err := edit(c.Unkill, "", true, true); err != nil || !changed || got.KillAll || len(got.KilledLanes) > 0 {
				t.Errorf("%s: %+v %v %v", bad.value, got, changed, err)
			}
			if got, err := c.Switches(deadline(t)); err != nil || got.KillAll {
				t.Errorf("%s: %+v %v", bad.value, got, err)
			}
			consul.PutKey(t, c, key, bad.value)
			if got, changed, err := edit(c.Kill, "dev2", false, true); err != nil || !changed || got.KillAll || !slices.Equal(got.KilledLanes, []lane.Name{"dev2"}) {
				t.Errorf("%s: %+v %v %v", bad.value, got, changed, err)
			}
			// With force as without it, what can be read is kept.
			if got, _, err := edit(c.Kill, "dev3", false, true); err != nil || len(got.KilledLanes) != 2 {
				t.Errorf("%+v %v", got, err)
			}
		}

		consul.PutKey(t, c, group, `{"group":"green"}`)
		var why *consul.UnreadableSwitchError
		if _, changed, err := c.SetGroup(deadline(t), service, "blue", false); changed || !errors.As(err, &why) || why.Service() != service {
			t.Errorf("%v %v", changed, err)
		}
		if _, changed, err := c.SetGroup(deadline(t), service, "", true); !changed || err != nil {
			t.Errorf("%v %v", changed, err)
		}
		if before, changed, err := c.SetGroup(deadline(t), service, "blue", false); before != "" || !changed || err != nil {
			t.Errorf("%q %v %v", before, changed, err)
		}
		var invalid *consul.ValidationError
		if _, _, err := c.SetGroup(deadline(t), service, `"blue"`, true); !errors.As(err, &invalid) {
			t.Errorf("a name that nobody could read: %v", err)
		}
	})
}

// A group is held as a kill is; the other switches are read.
func TestAGroupThatCannotBeRead(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		withoutKills(t, c)
		one, other := unique("orders"), unique("stock")
		for _, s := range []string{one, other} {
			t.Cleanup(func() { consul.PutKey(t, c, "lane/switches/active/"+s, "") })
		}
		w, log := watchLogged(t, c)
		active := func(w *consul.Watcher, service string) string { return w.Catalog().Switches.ActiveGroup[service] }
		for _, bad := range []string{`{"group":"blue"}`, `"blue"`, "blue\ngreen", "bl\xffue"} {
			consul.PutKey(t, c, "lane/switches/active/"+one, "green\n")
			eventually(t, "green", func() bool { return active(w, one) == "green" })
			before := log.errors()
			consul.PutKey(t, c, "lane/switches/active/"+one, bad)
			consul.PutKey(t, c, "lane/switches/active/"+other, "blue")
			eventually(t, "the other group", func() bool { return active(w, other) == "blue" && log.errors() == before+1 })
			if active(w, one) != "green" || w.Catalog().Switches.KillAll {
				t.Errorf("%q: %+v", bad, w.Catalog().Switches)
			}
			if starting, _ := watchLogged(t, c); active(starting, one) != "" || active(starting, other) != "blue" || starting.Catalog().Switches.KillAll {
				t.Errorf("%q: one that starts has %+v", bad, starting.Catalog().Switches)
			}
			consul.PutKey(t, c, "lane/switches/active/"+other, "")
			eventually(t, "cleared", func() bool { return active(w, other) == "" })
		}
		consul.PutKey(t, c, "lane/switches/active/"+one, " \n")
		eventually(t, "a blank one is none", func() bool { return active(w, one) == "" })
	})
}
