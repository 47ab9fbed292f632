package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Registry is what asking for it told.
type Registry struct {
	Address string
	Source  string // where the address comes from
	Err     error  // no answer, or none of a registry
	Wrong   bool   // Err is a mistake in the settings: nothing was asked
	Leader  string // empty: it answers and knows none
	Version string // empty: the token may not read it
}

// Findings of the registry.
func (r Registry) Findings() []Finding {
	const check = "registry"
	switch {
	case r.Err != nil && r.Wrong:
		return []Finding{{check, Wrong, r.Err.Error() + "; the checks that ask it were left out", where(r.Address, r.Source), "mend it; nothing was asked of the registry"}}
	case r.Err != nil:
		return []Finding{{check, Away, r.Err.Error() + "; the checks that ask it were left out", where(r.Address, r.Source),
			"start it, or name another with CONSUL_HTTP_ADDR; `lane registry` runs one here"}}
	case r.Leader == "":
		return []Finding{{check, Wrong, "it answers and has no leader: it takes registrations and shows old data", where(r.Address, r.Source),
			"its servers elect one within seconds of each other; ask `consul operator raft list-peers`"}}
	}
	what := "it answers, and has a leader"
	if r.Version != "" {
		what = "Consul " + r.Version + " answers, and has a leader"
	}
	return []Finding{{Check: check, Level: Well, What: what, Where: where(r.Address, r.Source)}}
}

func where(what, source string) string {
	if source == "" {
		return what
	}
	if source == "default" {
		return what + ", the default"
	}
	return what + ", from " + source
}

// Right is a right that the token lacks.
type Right struct{ Name, Without string }

// Rights is what the registry's access control told of the token.
type Rights struct {
	Off      bool // there is none
	Rejected error
	Unknown  error    // it could not be asked
	Token    string   // its description
	Policies []string // by name
	Asked    int      // how many rights were asked for
	NoLane   bool     // those of a lane's claims were not, because none was named
	Missing  []Right
	Policy   string // the command that prints what is needed
}

// Findings of the token.
func (r Rights) Findings() []Finding {
	const check = "rights"
	switch {
	case r.Off:
		return []Finding{{Check: check, Level: Well, What: "the registry's access control is off: everybody may do everything"}}
	case r.Rejected != nil:
		return []Finding{{check, Wrong, r.Rejected.Error(), "", "set CONSUL_HTTP_TOKEN, or consul.token_file in lane.yaml, to a valid one"}}
	case r.Unknown != nil:
		return []Finding{{check, Note, "what the token may cannot be told without writing: " + r.Unknown.Error(), r.who(), "compare it with " + r.Policy}}
	case len(r.Missing) == 0:
		what := fmt.Sprintf("the token has all %d rights that lane needs", r.Asked)
		if r.NoLane {
			what += "; --lane LANE asks for those of its claims too"
		}
		return []Finding{{Check: check, Level: Well, What: what, Where: r.who()}}
	}
	var out []Finding
	for _, m := range r.Missing {
		out = append(out, Finding{check, Wrong, fmt.Sprintf("the token lacks %s: %s", m.Name, m.Without), r.who(), r.Policy + " prints the policy that it needs"})
	}
	return out
}

func (r Rights) who() string {
	who := r.Token
	if len(r.Policies) > 0 {
		who = strings.TrimSpace(who + " (policies " + strings.Join(r.Policies, ", ") + ")")
	}
	return who
}

// Agents is which agent answered on each of several new connections.
type Agents struct {
	Nodes   []string
	Denied  bool // the token may not read it
	Err     error
	Address string
}

// Findings of the agents.
func (a Agents) Findings() []Finding {
	const check = "agents"
	distinct := slices.Compact(slices.Sorted(slices.Values(a.Nodes)))
	switch {
	case a.Denied:
		return []Finding{{check, Note, "whether the same agent answers each time is unknown: the token lacks agent:read", a.Address,
			`agent_prefix "" { policy = "read" } lets lane doctor tell; nothing else needs it`}}
	case a.Err != nil:
		return Unknown(check, a.Err)
	case len(distinct) > 1:
		return []Finding{{check, Wrong, fmt.Sprintf("%d connections were answered by %d agents (%s): what is registered with one is unknown to the others, and beats get lost",
			len(a.Nodes), len(distinct), strings.Join(distinct, ", ")), a.Address, "name one agent, not the load balancer before them, in CONSUL_HTTP_ADDR"}}
	}
	return []Finding{{Check: check, Level: Well, What: fmt.Sprintf("the same agent answers on each of %d connections: node %s", len(a.Nodes), strings.Join(distinct, "")), Where: a.Address}}
}

// Clock is what the agent's clock said, between two looks at ours.
type Clock struct {
	Theirs        time.Time
	Before, After time.Time
	Missing       bool // it did not say
	Err           error
}

// skewed is how far two clocks may be apart before it is worth a word: the agent
// tells whole seconds.
const skewed = 5 * time.Second

// Findings of the clock. Nothing in lane compares two machines' clocks; people who
// read logs do.
func (c Clock) Findings() []Finding {
	const check = "clock"
	switch {
	case c.Err != nil:
		return Unknown(check, c.Err)
	case c.Missing:
		return []Finding{{Check: check, Level: Note, What: "the agent does not say what time it is"}}
	}
	skew := c.Before.Add(c.After.Sub(c.Before) / 2).Sub(c.Theirs)
	if skew.Abs() < skewed {
		return []Finding{{Check: check, Level: Well, What: "this machine's clock and the agent's agree within 5s"}}
	}
	way := "ahead of"
	if skew < 0 {
		way = "behind"
	}
	return []Finding{{check, Note, fmt.Sprintf("this machine's clock is %s %s the agent's", skew.Abs().Round(time.Second), way), "",
		"nothing in lane depends on it; mind it when you compare logs"}}
}
