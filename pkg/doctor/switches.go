package doctor

// Unreadable is a switch in the registry that cannot be read.
type Unreadable struct{ Key, What, Do string }

// Switches is what is wrong with the switches of the environment.
type Switches struct{ Unreadable []Unreadable }

// Findings of the switches; none where all can be read.
func (s Switches) Findings() (all []Finding) {
	for _, u := range s.Unreadable {
		all = append(all, Finding{"switches", Wrong, u.What, u.Key, u.Do})
	}
	return all
}
