package consul_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

func TestWithoutAccessControlEverybodyMayAll(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		if _, _, err := open(t, addr).Token(deadline(t)); !errors.Is(err, consul.ErrNoACL) {
			t.Errorf("%v", err)
		}
	})
}

// What is told of a token is what its rules say, and it is told by reads alone.
func TestTheRightsOfATokenAreTold(t *testing.T) {
	binary := consultest.Needed(t) // the embedded registry has no access control
	const root = "2f9c1a34-6b0e-4a57-9d5e-000000000003"
	addr := consultest.StartACL(t, binary, root)
	as := func(token string) *consul.Client {
		c, err := consul.Open(consul.Config{Address: addr, Token: token, Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	needed := consul.DirectRights("dev-alice", []string{"orders", "stock"}, "auto")
	for i := range needed {
		var rules strings.Builder
		for j, r := range needed {
			if i != j {
				rules.WriteString(r.Rule() + "\n")
			}
		}
		c := as(consul.NewToken(t, as(root), "without-"+string(rune('a'+i)), rules.String()))
		if _, policies, err := c.Token(deadline(t)); err != nil || len(policies) != 1 {
			t.Errorf("%v %v", policies, err)
		}
		missing, err := c.Missing(deadline(t), needed)
		if err != nil || !slices.Equal(missing, needed[i:i+1]) {
			t.Errorf("without %s: %v %v", needed[i].Rule(), missing, err)
		}
	}
	// What a session writes once somebody called who knows no lanes.
	learner := func(name, mode string) error {
		var rules strings.Builder
		for _, r := range consul.DirectRights("dev-alice", []string{"orders"}, mode) {
			rules.WriteString(r.Rule() + "\n")
		}
		_, err := as(consul.NewToken(t, as(root), name, rules.String())).LearnPolicy(deadline(t), consul.ServicePolicy{Service: "orders", Mode: consul.ModeIsolated})
		return err
	}
	if err := learner("auto", "auto"); err != nil {
		t.Errorf("auto: %v", err)
	}
	if err := learner("shared", consul.ModeShared); !denied(err) || !strings.Contains(err.Error(), "key:write") {
		t.Errorf("shared: %v", err)
	}
	many := slices.Repeat(needed, 10) // more than are answered at once
	if missing, err := as(root).Missing(deadline(t), many); err != nil || len(missing) != 0 {
		t.Errorf("root lacks %v, %v", missing, err)
	}
	if missing, err := as("").Missing(deadline(t), many); err != nil || len(missing) != len(many) {
		t.Errorf("nobody lacks %d of %d, %v", len(missing), len(many), err)
	}
	var unknown *consul.TokenError
	if _, _, err := as("mistyped").Token(deadline(t)); !errors.As(err, &unknown) {
		t.Errorf("an unknown token: %v", err)
	}
	if _, err := as(consul.NewToken(t, as(root), "no-agent", "")).NodeNames(deadline(t), 2); !denied(err) {
		t.Errorf("node names: %v", err)
	}
	// Claims that the token may not see are not taken for claims that are not there.
	if _, err := as(consul.NewToken(t, as(root), "no-claims", `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`)).Remains(deadline(t)); !denied(err) {
		t.Errorf("remains: %v", err)
	}
}

func denied(err error) bool {
	var d *consul.DeniedError
	return errors.As(err, &d)
}

func TestWhatAnAgentTellsOfItself(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		nodes, err := c.NodeNames(deadline(t), 3)
		if err != nil || len(nodes) != 3 || nodes[0] == "" || nodes[0] != nodes[2] {
			t.Errorf("%q, %v", nodes, err)
		}
		if v, err := c.Version(deadline(t)); err != nil || !strings.HasPrefix(v, "1.14.") {
			t.Errorf("%q, %v", v, err)
		}
		if at, err := c.Clock(deadline(t)); err != nil || at.IsZero() {
			t.Errorf("%v, %v", at, err)
		}
		if leader, err := c.Leader(deadline(t)); err != nil || leader == "" {
			t.Errorf("%q, %v", leader, err)
		}
	})
}
