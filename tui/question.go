package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"lane/pkg/traffic"
)

// question is what stands before a key that cannot be taken back: words, what it is
// about, more words, and the keys that answer it. Where there is no room for all of
// it, what it is about gives way, and then the words for the keys.
type question struct{ before, about, after, keys string }

// aboutLeast is how much of what a question is about has to stand in it, in columns.
const aboutLeast = 20

// within is the question in at most room columns, if that is possible at all.
func (q question) within(room int) string {
	about := ansi.StringWidth(q.about)
	for _, keys := range []string{"  " + q.keys, " " + q.letters()} {
		left := room - ansi.StringWidth(q.before+q.after+keys)
		if left >= min(about, aboutLeast) {
			return q.before + cut(q.about, left) + q.after + keys
		}
	}
	return q.before + cut(q.about, min(about, aboutLeast)) + q.after + " " + q.letters()
}

// letters are the keys without their words: y/n.
func (q question) letters() string {
	var all []string
	for _, k := range strings.Split(q.keys, " / ") {
		key, _, _ := strings.Cut(k, " ")
		all = append(all, key)
	}
	return strings.Join(all, "/")
}

// confirm is a question that a key asks before it does something.
type confirm struct {
	question
	yes func(model) model
	// follow is whether the list followed before: while it is asked, it does not, so
	// that the row which the question names stays the selected one.
	follow bool
}

// ask asks; yes is called if the answer is that.
func (m model) ask(q question, yes func(model) model) model {
	m.confirm = &confirm{q, yes, m.list.follow}
	m.list.follow = false
	return m
}

// asked takes the question away: the list goes on as before.
func (m model) asked() model {
	m.list.follow = m.confirm.follow
	m.confirm = nil
	return m
}

// waiting is the question that waits for an answer, if there is one.
func (m *model) waiting() (question, bool) {
	switch {
	case m.asking:
		return m.question(), true
	case m.confirm != nil:
		return m.confirm.question, true
	}
	return question{}, false
}

// rowWords name an exchange in a question: method, service, path, without secrets.
func rowWords(e *traffic.Exchange, t text) string {
	const most = 200
	words := []string{t.clean(e.Method, 20)}
	if e.Method != "CONNECT" { // its path is the host
		words = append(words, t.clean(serviceWord(e), most))
	}
	return strings.Join(append(words, t.clean(pathWord(e, most), most)), " ")
}
