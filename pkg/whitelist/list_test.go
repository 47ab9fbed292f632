package whitelist

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// store is lists by their routes.
type store struct {
	mu    sync.Mutex
	pairs map[string]string
	err   error
	reads []string
}

func (s *store) put(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pairs[key] = value
}

func (s *store) read(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, key)
	if v, ok := s.pairs[key]; ok {
		return []byte(v), s.err
	}
	return nil, s.err
}

func TestListOfARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{pairs: map[string]string{"buyer-api": "buyer-123\nbuyer-124\n"}}
		w := List(s.read, nil)
		defer w.Close()
		for _, c := range []struct {
			route, id string
			want      bool
		}{
			{"buyer-api", "buyer-123", true},
			{"buyer-api", "buyer-124", true},
			{"buyer-api", "buyer-12", false},
			{"buyer-api", "BUYER-123", false},
			{"seller-api", "buyer-123", false},
			{"buyer-api", " ", false},
		} {
			if got := w.Member(t.Context(), c.route, c.id); got != c.want {
				t.Errorf("%s on %s: %v", c.id, c.route, got)
			}
		}
		// One read for each route, whoever asks.
		if got := strings.Join(s.reads, " "); got != "buyer-api seller-api" {
			t.Errorf("read %s", got)
		}
		s.put("buyer-api", "")
		time.Sleep(remembered)
		if w.Member(t.Context(), "buyer-api", "buyer-123") {
			t.Error("a member ten seconds after the list was emptied")
		}
	})
}

func TestListThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{pairs: map[string]string{"shop": "ann"}, err: errors.New("no leader")}
		w := List(s.read, nil)
		defer w.Close()
		member(t, w, "ann", false)
		s.err = nil
		member(t, w, "ann", false)
		if got, want := w.Stats(), (Stats{Lookups: 1, Errors: 1, Unknown: 2}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		time.Sleep(retried)
		member(t, w, "ann", true)
	})
}

func TestParseList(t *testing.T) {
	for text, want := range map[string][]string{
		"":                     nil,
		"\n \r\n\t\n":          nil,
		"ann":                  {"ann"},
		"ann\nbob":             {"ann", "bob"},
		" ann \r\n\r\nbob\r\n": {"ann", "bob"},
		"ann,bob\n#eve\nann\n": {"#eve", "ann", "ann,bob"},
		"Jörg Müller\n用户-1\n":  {"Jörg Müller", "用户-1"},
	} {
		if got := slices.Sorted(maps.Keys(parse([]byte(text)))); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestEditList(t *testing.T) {
	text, n := Add(nil, "ann", "bob", "ann")
	if string(text) != "ann\nbob\n" || n != 2 {
		t.Errorf("%q %d", text, n)
	}
	byHand := []byte(" eve\r\n\nann")
	if text, n := Add(byHand, "ann"); string(text) != string(byHand) || n != 0 {
		t.Errorf("nothing was to be added: %q %d", text, n)
	}
	if text, n := Add(byHand, "bob"); string(text) != "eve\nann\nbob\n" || n != 1 {
		t.Errorf("%q %d", text, n)
	}
	if text, n := Remove([]byte("ann\nbob\nann\n"), "ann", "eve"); string(text) != "bob\n" || n != 2 {
		t.Errorf("%q %d", text, n)
	}
	if text, n := Remove(byHand, "bob"); string(text) != string(byHand) || n != 0 {
		t.Errorf("nothing was to be removed: %q %d", text, n)
	}
	if text, n := Remove([]byte("ann"), "ann"); len(text) != 0 || n != 1 {
		t.Errorf("%q %d", text, n)
	}
	for id, ok := range map[string]bool{"buyer-1": true, "Jörg Müller": true, "#1": true, "": false, " ann": false, "a\nb": false,
		"a\tb": false, "a\xff": false, strings.Repeat("x", longestID): true, strings.Repeat("x", longestID+1): false} {
		if err := CheckID(id); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}
