package consul_test

import (
	"errors"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// The printed policies, in a real registry with its access control on: who may
// propose cannot approve, and the other way round.
func TestThePoliciesHold(t *testing.T) {
	binary := consultest.Needed(t) // the embedded registry has no access control
	const root = "2f9c1a34-6b0e-4a57-9d5e-000000000001"
	addr := consultest.StartACL(t, binary, root)
	as := func(token string) *consul.Client {
		t.Helper()
		c, err := consul.Open(consul.Config{Address: addr, Token: token, Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	by := map[string]*consul.Client{"nobody": as("")}
	for _, p := range consul.Policies() {
		by[p.Name] = as(consul.NewToken(t, as(root), p.Name, p.Rules))
	}
	router, proposer, approver, operator := by["lane-router"], by["lane-rules-propose"], by["lane-rules-approve"], by["lane-operator"]
	denied := func(what string, err error) {
		t.Helper()
		var d *consul.DeniedError
		if !errors.As(err, &d) {
			t.Errorf("%s: %v, want a denial", what, err)
		}
	}
	may := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	p, _, err := proposer.ProposeRules(deadline(t), draft(0, "one"))
	may("propose", err)
	_, _, err = proposer.ApproveRules(deadline(t), p.ID, consul.RuleDraft{})
	denied("approve what I proposed", err)
	_, _, err = proposer.PushRules(deadline(t), draft(0, "mine"))
	denied("push as the proposer", err)
	_, _, err = approver.ProposeRules(deadline(t), draft(0, "two"))
	denied("propose as the approver", err)
	_, err = approver.WithdrawRules(deadline(t), p.ID)
	denied("withdraw as the approver", err)
	r, changed, err := approver.ApproveRules(deadline(t), p.ID, consul.RuleDraft{Author: "bob"})
	may("approve", err)
	if !changed || r.Revision != 1 || string(r.Document) != "one" {
		t.Errorf("%+v %v", r, changed)
	}
	_, _, err = proposer.RollbackRules(deadline(t), 1, draft(1, ""))
	may("what changes nothing needs no right", err)
	_, _, err = approver.PushRules(deadline(t), draft(1, "three"))
	may("push as the approver", err)
	_, _, err = proposer.RollbackRules(deadline(t), 1, draft(2, ""))
	denied("roll back as the proposer", err)

	if w := ruleWatch(t, router); w.State().Applied != 2 {
		t.Errorf("a router: %+v", w.State())
	}
	if w := ruleWatch(t, by["nobody"]); w.Applied() != nil || w.State().Err == nil {
		t.Errorf("a router without a token: %+v", w.State())
	}
	_, _, err = router.PushRules(deadline(t), draft(2, "four"))
	denied("push as a router", err)
	_, _, err = router.Kill(deadline(t), "dev-bob", false, false)
	denied("kill as a router", err)
	_, _, err = approver.Kill(deadline(t), "dev-bob", false, false)
	denied("kill as the approver", err)
	_, changed, err = operator.Kill(deadline(t), "dev-bob", false, false)
	may("kill as the operator", err)
	if got, err := router.Switches(deadline(t)); err != nil || !changed || len(got.KilledLanes) != 1 {
		t.Errorf("a router reads %+v, %v", got, err)
	}
	_, _, err = operator.SetGroup(deadline(t), "orders", "green", false)
	may("switch as the operator", err)
	_, _, err = operator.PushRules(deadline(t), draft(2, "four"))
	denied("push as the operator", err)

	// Who edits the lists changes no rule, and who changes rules edits no list.
	add := func([]byte) ([]byte, error) { return []byte("ann\n"), nil }
	for _, name := range []string{"lane-router", "lane-rules-propose", "lane-rules-approve", "lane-operator"} {
		_, err = by[name].EditWhitelist(deadline(t), "buyer-api", add)
		denied("edit a whitelist as "+name, err)
	}
	_, err = by["lane-whitelist"].EditWhitelist(deadline(t), "buyer-api", add)
	may("edit a whitelist", err)
	_, _, err = by["lane-whitelist"].PushRules(deadline(t), draft(2, "four"))
	denied("push as the lists' editor", err)
	text, err := router.Whitelist(deadline(t), "buyer-api")
	may("read a whitelist as a router", err)
	if string(text) != "ann\n" {
		t.Errorf("a router reads %q", text)
	}
	_, err = operator.Whitelist(deadline(t), "buyer-api")
	denied("read a whitelist as the operator", err)

	// A router announces itself, and registers nothing else.
	announced := func(as string) *consul.Hold {
		return router.NewHold(consul.Registration{ID: consul.BaselineID(as, "127.0.0.1", 8080), Name: as, Service: as, Baseline: true,
			Address: "127.0.0.1", Port: 8080, Meta: map[string]string{consul.MetaAdmin: "9901"}}, consul.HoldOptions{App: true})
	}
	for _, as := range []string{consul.GatewayService, consul.SidecarService} {
		h := announced(as)
		may("announce a "+as, h.Register(deadline(t)))
		if all, err := router.Routers(deadline(t)); err != nil || len(all) != 1 || all[0].Service != as {
			t.Errorf("%+v, %v", all, err)
		}
		may("leave", h.Deregister(deadline(t)))
	}
	denied("register a service as a router", announced("orders").Register(deadline(t)))

	// The operator takes out what a developer has registered.
	h := as(root).NewHold(registration("dev-bob", "orders"), consul.HoldOptions{App: true})
	may("register", h.Register(deadline(t)))
	all, err := operator.LaneInstances(deadline(t), "dev-bob")
	may("read the lane", err)
	if len(all["orders"]) != 1 {
		t.Fatalf("%+v", all)
	}
	in := all["orders"][0]
	_, err = approver.MarkDraining(deadline(t), in)
	denied("drain as the approver", err)
	_, err = operator.MarkDraining(deadline(t), in)
	may("drain", err)
	denied("take it back as the approver", approver.UnmarkDraining(deadline(t), in))
	may("take it back", operator.UnmarkDraining(deadline(t), in))
	may("drop the claim", operator.DropClaim(deadline(t), lane.Claim{Lane: "dev-bob", Service: "orders"}))
	at := consul.Activity{Lane: "dev-bob", Service: "orders"}
	may("remove a last activity", operator.RemoveActivity(deadline(t), at))
	denied("remove one as the approver", approver.RemoveActivity(deadline(t), at))
	may("deregister", operator.Deregister(deadline(t), in.ID))
}
