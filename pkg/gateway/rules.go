package gateway

import (
	"context"
	"log/slog"
	"strconv"

	"lane/pkg/admin"
	"lane/pkg/consul"
	"lane/pkg/rules"
)

// Rules are the rules that the registry holds, as the gateway applies them: each
// good revision as a whole, behind one pointer. One that cannot be loaded never
// comes to hold.
type Rules struct {
	watch   watch
	members rules.Members
}

// watch is a consul.RuleWatch.
type watch interface {
	Run(ctx context.Context) error
	Settled() <-chan struct{}
	State() consul.RuleState
	Applied() *consul.AppliedRules[*rules.Set]
}

var _ watch = (*consul.RuleWatch[*rules.Set])(nil)

// NewRules makes the rules of a registry. Nothing is asked before Run; until the
// first answer nothing is colored. members, which may be nil, knows the whitelists.
// log is told of a revision that cannot be loaded, and of each that comes to hold
// later than the first.
func NewRules(c *consul.Client, members rules.Members, log *slog.Logger) *Rules {
	parse := func(r consul.RuleRevision) (*rules.Set, error) {
		set, err := rules.Parse(r.Document)
		if err != nil {
			return nil, err
		}
		return set.WithRevision(rules.Revision{Rev: strconv.Itoa(r.Revision), Author: r.Author, Note: r.Note}), nil
	}
	told := func(s consul.RuleState) {
		if s.Why == nil {
			log.Info("the registry's rules have changed", "holds", s.Applied)
			return
		}
		log.Error("the registry's active rules do not hold here, those before go on", "refused", s.Refused, "holds", s.Applied, "error", s.Why)
	}
	return &Rules{members: members, watch: consul.NewRuleWatch(c, consul.WatchOptions{}, parse, told)}
}

// Run watches until ctx ends, and then returns nil.
func (r *Rules) Run(ctx context.Context) error { return r.watch.Run(ctx) }

// Settled is closed when the registry has answered for the first time.
func (r *Rules) Settled() <-chan struct{} { return r.watch.Settled() }

// State says which revision holds, and which was refused and why.
func (r *Rules) State() consul.RuleState { return r.watch.State() }

// Rev is what an admin port says of them; of none for nil.
func (r *Rules) Rev() admin.Rev {
	rev := admin.Rev{Schema: admin.RevSchema}
	if r == nil {
		return rev
	}
	st := r.State()
	rev.Follows = true
	rev.Revision, rev.Refused = st.Applied, st.Refused
	if st.Why != nil {
		rev.Why = st.Why.Error()
	}
	return rev
}

// Set is the revision that holds now, nil before there is one: that colors nothing.
func (r *Rules) Set() *rules.Set {
	if applied := r.watch.Applied(); applied != nil {
		return applied.Rules
	}
	return nil
}

// Color colors a request by the revision that holds now.
func (r *Rules) Color(_ context.Context, req *rules.Request) (rules.Result, rules.Revision) {
	set := r.Set()
	return set.Color(req, r.members), set.Revision()
}
