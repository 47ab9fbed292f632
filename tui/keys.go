package tui

import (
	"strings"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
)

// action is what a key does.
type action uint8

const (
	actNone action = iota
	actUp
	actDown
	actPageUp
	actPageDown
	actTop
	actBottom
	actOpen
	actBack
	actFilter
	actNextProblem
	actPrevProblem
	actFollow
	actPause
	actServices
	actHelp
	actQuit
	actInterrupt
	actTry
	actFallbacks
	actGraph
	actEvents
	actNextTab
	actPrevTab
	actTab // one of the five, by its number
	actCopy
	actCopySecrets
	actReplay
	actAgainst
	actMark
	actExport
	actClear
	actProxy
	actSort
	actReconnect
	actDoctor
	actAnswers
	actRedraw
	actSuspend
)

// place is where a key works.
type place uint16

const (
	inList place = 1 << iota
	inDetail
	inServices
	inHelp
	inTry
	inFallbacks
	inGraph
	inEvents
	inAnswers
	inDoctor
	// inTexts are the screens that lie over the list.
	inTexts    = inServices | inHelp | inTry | inFallbacks | inGraph | inEvents | inAnswers | inDoctor
	everywhere = inList | inDetail | inTexts
)

// binding is a key as data: the footer, the help screen and the documentation
// are all made from it.
type binding struct {
	key.Binding
	act   action
	where place
	deed  bool // there only where somebody does deeds
	// brief is the key in the footer; empty keeps it out.
	brief string
}

// early says that a key is of use before there is any exchange.
func (b *binding) early() bool {
	switch b.act {
	case actServices, actDoctor, actReconnect, actProxy, actHelp, actQuit:
		return true
	}
	return false
}

// bindings are all keys, in the order of the help.
func bindings() []binding {
	bind := func(act action, where place, brief, keys, means string, names ...string) binding {
		return binding{act: act, where: where, brief: brief,
			Binding: key.NewBinding(key.WithKeys(names...), key.WithHelp(keys, means))}
	}
	deed := func(b binding) binding { b.deed = true; return b }
	return []binding{
		bind(actDown, everywhere, "", "j down", "next line", "j", "down"),
		bind(actUp, everywhere, "", "k up", "previous line", "k", "up"),
		bind(actPageDown, everywhere, "", "ctrl+f pgdn", "a screen down", "ctrl+f", "pgdown"),
		bind(actPageUp, everywhere, "", "ctrl+b pgup", "a screen up", "ctrl+b", "pgup"),
		bind(actTop, everywhere, "", "< home", "first line", "<", "home"),
		bind(actBottom, everywhere, "", "> G end", "newest line, and follow", ">", "G", "end"),
		bind(actOpen, inList, "enter detail", "enter", "show it in full", "enter"),
		bind(actReconnect, everywhere, "R retry now", "R", "try again now what is lost", "R"),
		bind(actBack, inDetail|inTexts, "esc back", "esc", "back; or end the filter", "esc", "enter"),
		bind(actBack, inList, "esc end filter", "esc", "", "esc"),
		bind(actFilter, inList, "/ filter", "/", "filter the list", "/"),
		bind(actNextProblem, inList|inDetail, "n/N error", "n", "next error or fallback", "n"),
		bind(actPrevProblem, inList|inDetail, "", "N", "previous error or fallback", "N"),
		bind(actFallbacks, everywhere, "b fallbacks", "b", "fallbacks, and their ends", "b"),
		bind(actGraph, everywhere, "g graph", "g", "graph: who called whom", "g"),
		bind(actServices, everywhere, "S services", "S", "services, totals, session", "S"),
		bind(actEvents, everywhere, "", "l", "log of the session", "l"),
		deed(bind(actDoctor, everywhere, "d doctor", "d", "doctor: what is wrong", "d")),
		bind(actNextTab, inList|inDetail, "tab part", "tab right", "next part of the detail", "tab", "right"),
		bind(actPrevTab, inList|inDetail, "", "shift+tab", "previous part; left too", "shift+tab", "left"),
		bind(actTab, inList|inDetail, "", "1-5", "this part of the detail", "1", "2", "3", "4", "5"),
		deed(bind(actCopy, inList|inDetail, "c curl", "c", "copy as curl, masked", "c")),
		deed(bind(actCopySecrets, inList|inDetail, "", "C", "copy with secrets (asks)", "C")),
		deed(bind(actReplay, inList|inDetail|inAnswers, "r replay", "r", "send it again and compare", "r")),
		deed(bind(actAgainst, inList|inDetail|inAnswers, "D diff", "D", "lane against baseline", "D")),
		deed(bind(actAnswers, everywhere, "", "a", "the last two answers", "a")),
		deed(bind(actExport, inList, "", "e", "export the list as HAR", "e")),
		deed(bind(actProxy, inList, "p copy proxy", "p", "copy the proxy's variables", "p")),
		bind(actMark, inList|inDetail, "", "m", "mark the row, or unmark it", "m"),
		bind(actPause, inList|inDetail, "space pause", "space", "freeze the list, or go on", " "),
		bind(actFollow, inList, "", "f", "follow the newest, on/off", "f"),
		bind(actSort, inList, "", "s", "sort: another order", "s"),
		bind(actClear, inList, "", "x", "clear the list (asks)", "x"),
		bind(actHelp, everywhere, "? help", "?", "this help", "?"),
		bind(actQuit, everywhere, "q quit", "q", "quit", "q"),
		bind(actRedraw, everywhere, "", "ctrl+l", "draw the screen anew", "ctrl+l"),
		bind(actSuspend, everywhere, "", "ctrl+z", "suspend (viewers only)", "ctrl+z"),
		bind(actInterrupt, everywhere, "", "ctrl+c", "quit without asking", "ctrl+c"),
	}
}

// lookup finds what a key does in a place.
func lookup(binds []binding, in place, msg tea.KeyMsg) action {
	for _, b := range binds {
		if b.where&in != 0 && key.Matches(msg, b.Binding) {
			return b.act
		}
	}
	return actNone
}

// Key is one key of the UI, for documentation.
type Key struct {
	Keys, Means string
	Where       string // where it works: everywhere, or list, detail, ...
}

// whereWords name the places of a key.
func whereWords(p place) string {
	if p&everywhere == everywhere {
		return "everywhere"
	}
	var words []string
	for _, w := range []struct {
		in   place
		word string
	}{{inList, "list"}, {inDetail, "detail"}, {inAnswers, "answers"}} {
		if p&w.in != 0 && p&inTexts != inTexts {
			words = append(words, w.word)
		}
	}
	if p&inTexts == inTexts {
		words = append(words, "all but the list")
	}
	return strings.Join(words, ", ")
}

// Keys returns the keys of the UI in the order of its help.
func Keys() []Key {
	var out []Key
	all := bindings()
	for _, b := range all {
		h := b.Help()
		if h.Desc == "" {
			continue
		}
		where := b.where
		for _, o := range all { // what it does elsewhere has no line of its own
			if o.act == b.act && o.Help().Key == h.Key {
				where |= o.where
			}
		}
		out = append(out, Key{h.Key, h.Desc, whereWords(where)})
	}
	return out
}
