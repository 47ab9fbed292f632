package session

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
)

// That the registry's token ends is said in its last ten minutes, by the session's clock.
func TestTheConsulTokenEnds(t *testing.T) {
	ends := time.Date(2026, 3, 2, 14, 11, 27, 0, time.UTC)
	for left, want := range map[time.Duration]string{
		time.Hour:              "",
		10*time.Minute + 1:     "",
		10 * time.Minute:       "the Consul token ends in 10 m 00 s (2026-03-02T14:11:27Z), and then ",
		9*time.Minute + 12*1e9: "the Consul token ends in 9 m 12 s (2026-03-02T14:11:27Z), and then ",
		0:                      "the Consul token has ended (2026-03-02T14:11:27Z), and then ",
		-time.Hour:             "the Consul token has ended (2026-03-02T14:11:27Z), and then ",
	} {
		s := &session{o: Options{Now: func() time.Time { return ends.Add(-left) }}, consulTokenEnds: ends}
		if want != "" {
			want += "nothing is known of the registry any more: begin another session with a new token"
		}
		for _, c := range []struct {
			link     *link
			services []*service
			says     string
		}{{nil, nil, want}, {&link{}, []*service{{}}, want}, {nil, []*service{{}}, strings.Replace(want, "then nothing is known of the registry any more: begin another session with a new token", "this session with it, leaving behind what it has registered: end it before", 1)}} {
			s.link, s.services = c.link, c.services
			if got := s.consulTokenEnding(); got != c.says {
				t.Errorf("%v before its end, a relay %v, %d services: %q, want %q", left, c.link != nil, len(c.services), got, c.says)
			}
		}
	}
	if got := (&session{o: Options{Now: time.Now}}).consulTokenEnding(); got != "" {
		t.Errorf("of a token that does not end: %q", got)
	}
}

// When a token ends does not change: who knows it does not ask again, and who does not
// asks until he does.
func TestTheEndOfTheConsulTokenIsLearnedOnce(t *testing.T) {
	ends := time.Now().Add(5 * time.Minute)
	for name, c := range map[string]struct {
		fails  int32
		answer string
		asked  int32
		news   int
	}{
		"it ends soon":       {0, fmt.Sprintf(`{"ExpirationTime":%q}`, ends.Format(time.RFC3339Nano)), 1, 1},
		"after two failures": {2, fmt.Sprintf(`{"ExpirationTime":%q}`, ends.Format(time.RFC3339Nano)), 3, 1},
		"it does not end":    {0, `{}`, 1, 0},
	} {
		var asked atomic.Int32
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) <= c.fails {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, c.answer)
		}))
		client, err := consul.Open(consul.Config{Address: strings.TrimPrefix(srv.URL, "http://"), Token: "secret", Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		var looks atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		s := &session{client: client, o: Options{Log: slog.New(slog.DiscardHandler), Now: func() time.Time {
			if looks.Add(1) == 20 { // it has looked often enough
				cancel()
			}
			return time.Now()
		}}}
		if c.news == 0 {
			defer cancel() // it returns by itself
		}
		if err := s.watchConsulToken(ctx, time.Millisecond); err != nil {
			t.Error(err)
		}
		cancel()
		if asked.Load() != c.asked || len(s.history) != c.news {
			t.Errorf("%s: asked %d times, %d news", name, asked.Load(), len(s.history))
		}
		client.Close()
		srv.Close()
	}
}
