package tui

import (
	"strings"

	"github.com/charmbracelet/bubbles/key"
)

// tryKey opens what a demo proposes. It stands in the help beside the other keys,
// and not in the footer: the hint above the list names it.
func tryKey() binding {
	return binding{act: actTry, where: everywhere, Binding: key.NewBinding(key.WithKeys("t"), key.WithHelp("t", "what to try meanwhile"))}
}

// tryLines are the proposals, with their headings in bold.
func (m *model) tryLines() []cell {
	out := make([]cell, len(m.try))
	for i, s := range m.try {
		out[i] = cell{m.fixed.text.clean(s, 400), plain}
		if s != "" && !strings.HasPrefix(s, " ") {
			out[i].class = bold
		}
	}
	return out
}
